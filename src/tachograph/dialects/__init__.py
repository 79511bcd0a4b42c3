"""Dialects: what the bytes of a provider's requests and answers say, one file per wire format."""
