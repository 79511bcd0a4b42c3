"""VERIFY.txt, the text by which a person checks a bundle with openssl, sha256sum, unzip and base64 alone.

It is the same in every bundle, so that nobody can be talked into other commands: a bundle that holds another text is
refused. When the text changes, the digest of the one before stays in `PUBLISHED`, and its bundles stay readable.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

VERIFY_TEXT = Path(__file__).with_name("verify.txt").read_bytes()
"""The text as bundles are written with it today."""

PUBLISHED = frozenset((sha256(VERIFY_TEXT).hexdigest(),))
"""The digests of every text that was ever published."""
