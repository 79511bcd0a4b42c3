"""How it is written down, for ever: integer versions, one upgrade per step, a frozen sample of each."""
