"""Does a secret lie on a disk? Looked for as it is, and under the codings in which software likes to write things down.

A text counts as found where its UTF-8 or UTF-16 bytes stand in a file or in anything that a file holds compressed
(deflate, gzip, zstd, at any offset), plainly, in hexadecimal, percent-encoded, or in base64 at any of its three
alignments.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import zstandard

_MOST = 1 << 22


def leaks(files: Mapping[Path, bytes], secrets: Iterable[str]) -> list[str]:
    """Where each secret was found: `file: secret, how`."""
    needles = [(secret, how, needle) for secret in secrets for how, needle in _written(secret)]
    return [
        f"{file}: {secret}, {how}, {layer}"
        for file, data in files.items()
        for layer, plain in _layers(data)
        for secret, how, needle in needles
        if needle in plain
    ]


def _written(secret: str) -> Iterator[tuple[str, bytes]]:
    for name, raw in (("utf-8", secret.encode()), ("utf-16", secret.encode("utf-16-le"))):
        yield name, raw
        yield f"{name} in hex", raw.hex().encode()
        yield f"{name} in HEX", raw.hex().upper().encode()
        for shift in range(3):
            coded = base64.b64encode(b"\0" * shift + raw)
            inner = coded[4 if shift else 0 : -4]  # without the characters that neighbours share
            yield f"{name} in base64 at {shift}", inner
            yield f"{name} in base64url at {shift}", inner.replace(b"+", b"-").replace(b"/", b"_")
    if quote(secret) != secret:
        yield "percent-encoded", quote(secret).encode()
    yield "reversed", secret.encode()[::-1]


def _layers(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield "as it is", data
    for magic, bits in ((b"\x1f\x8b", 31), (b"\x78\x01", 15), (b"\x78\x9c", 15), (b"\x78\xda", 15)):
        for at in _places(data, magic):
            try:
                yield f"deflated at {at}", zlib.decompressobj(bits).decompress(data[at:], _MOST)
            except zlib.error:
                continue
    for at in _places(data, b"\x28\xb5\x2f\xfd"):
        try:
            yield f"zstd at {at}", zstandard.ZstdDecompressor().decompressobj().decompress(data[at:])
        except zstandard.ZstdError:
            continue


def _places(data: bytes, magic: bytes) -> Iterator[int]:
    at = data.find(magic)
    while at >= 0:
        yield at
        at = data.find(magic, at + 1)
