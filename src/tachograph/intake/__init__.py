"""Frames become captures: assemble, redact, commit, seal. One sealer per store; everything here is off the agent's path."""
