"""Bytes by digest, history in order: spool, segments, journal, keys, and the indexes that can be rebuilt from them."""
