"""Run it again in a closed world, from the record alone."""
