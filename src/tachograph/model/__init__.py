"""Frozen values, no I/O: the words of the product as types."""
