"""Who vouches for these bytes: keys, envelopes, Merkle trees, the log, time."""
