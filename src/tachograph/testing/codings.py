"""Content encodings as a server would apply them: the same bytes in, the same bytes out.

gzip and deflate are the standard library's, with the time stamp left out so that two calls agree. `br` and `zstd` need
`brotli` and `zstandard`; where one is missing, `ExtraMissing` says how to get it.
"""

from __future__ import annotations

import gzip
import importlib
import zlib
from typing import Any

from tachograph.errors import ExtraMissing, UsageError

_NEEDED = {"br": "brotli", "zstd": "zstandard"}


def compress(data: bytes, coding: str) -> bytes:
    """`data` under one content coding: `identity`, `gzip`, `deflate`, `br` or `zstd`.

    Raises `UsageError` for another name, `ExtraMissing` where the coding's package is not installed.
    """
    if coding == "identity":
        return data
    if coding == "gzip":
        return gzip.compress(data, mtime=0)
    if coding == "deflate":  # RFC 9110 section 8.4.1.2: the zlib form, whatever the name suggests
        return zlib.compress(data)
    if coding == "br":
        return bytes(_package(coding).compress(data))
    if coding == "zstd":
        return bytes(_package(coding).ZstdCompressor().compress(data))
    raise UsageError(f"no such content coding here: {coding!r}; known are identity, gzip, deflate, br and zstd")


def _package(coding: str) -> Any:
    name = _NEEDED[coding]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExtraMissing(f"An answer encoded as {coding} needs the package {name}: pip install {name}") from error
