"""Same or not, and where: values against values, with no clock, randomness, network or disk."""
