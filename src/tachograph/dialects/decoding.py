"""Content codings: the bytes of a body as a client would see them, or in words why not.

The wire bytes are what a capture keeps; this is only a view of them (R04). gzip and deflate come with Python, br and
zstd are decoded where a library is there. Nothing is made up:

- an empty body stays empty under any header, and no decoding is tried (R03);
- a body that is not what its header says is not decoded, and the reason says so;
- a body that ends early gives what could be decoded, with `complete` False.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

MOST_DECODED = 256 << 20  # bytes; a small body may not unfold without end


class Decoded(NamedTuple):
    """The decoded body, or None and the reason; `complete` is False where the body ends early."""

    body: bytes | None
    reason: str | None = None
    complete: bool = True


def decode_content(headers: Sequence[tuple[bytes, bytes]], body: bytes, *, most: int = MOST_DECODED) -> Decoded:
    """Undo the content codings that the headers name, last one first. `most` is in bytes."""
    codings = [
        coding.strip().lower().decode("latin-1")
        for name, value in headers
        if name.lower() == b"content-encoding"
        for coding in value.split(b",")
    ]
    decoded = Decoded(body)
    for coding in reversed(codings):
        if not decoded.body or coding in ("", "identity"):
            continue
        step = _DECODERS.get(coding, _unknown(coding))(decoded.body, most)
        decoded = Decoded(step.body, step.reason, step.complete and decoded.complete)
    return decoded


def _unknown(coding: str) -> Callable[[bytes, int], Decoded]:
    return lambda _body, _most: Decoded(None, f"encoded: {coding}, not decoded here")


def _inflate(coding: str, *windows: int) -> Callable[[bytes, int], Decoded]:
    def decode(body: bytes, most: int) -> Decoded:
        for bits in windows:
            try:
                return _inflate_members(body, bits, most)
            except zlib.error:
                continue
        return Decoded(None, f"said to be {coding}, and is not")

    return decode


def _inflate_members(body: bytes, bits: int, most: int) -> Decoded:
    """gzip bodies may hold several members, one behind the other."""
    out = bytearray()
    while body:
        stream = zlib.decompressobj(bits)
        out += stream.decompress(body, most + 1 - len(out))
        if len(out) > most:
            return _too_large(most)
        if not stream.eof:
            return Decoded(bytes(out), None, complete=False)
        body = stream.unused_data
    return Decoded(bytes(out))


def _too_large(most: int) -> Decoded:
    return Decoded(None, f"unfolds to more than {most} bytes, not decoded")


def _first_module(*names: str) -> Any:
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


def _brotli(body: bytes, most: int) -> Decoded:
    module = _first_module("brotli", "brotlicffi")
    if module is None:
        return _unknown("br")(body, most)
    stream, out = module.Decompressor(), bytearray()
    try:
        for at in range(0, len(body), 4096):  # small steps: one of them unfolds to a few MB at worst
            out += stream.process(body[at : at + 4096])
            if len(out) > most:
                return _too_large(most)
    except module.error:
        return Decoded(None, "said to be br, and is not")
    return Decoded(bytes(out), None, complete=stream.is_finished())


def _zstd(body: bytes, most: int) -> Decoded:
    module = _first_module("zstandard")
    if module is None:
        return _unknown("zstd")(body, most)
    out = bytearray()
    try:
        while body:
            stream = module.ZstdDecompressor().decompressobj()
            for at in range(0, len(body), 4096):
                out += stream.decompress(body[at : at + 4096])
                if len(out) > most:
                    return _too_large(most)
                if stream.eof:
                    break
            if not stream.eof:
                return Decoded(bytes(out), None, complete=False)
            body = stream.unused_data + body[at + 4096 :]
    except module.ZstdError:
        return Decoded(None, "said to be zstd, and is not")
    return Decoded(bytes(out))


_DECODERS: dict[str, Callable[[bytes, int], Decoded]] = {
    "gzip": _inflate("gzip", 31),
    "x-gzip": _inflate("gzip", 31),
    "deflate": _inflate("deflate", 15, -15),  # with and without the zlib header: servers send both
    "br": _brotli,
    "zstd": _zstd,
}
