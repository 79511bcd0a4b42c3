"""Frames become captures: gather, read, seal. One sealer per store; everything here is off the agent's path."""
