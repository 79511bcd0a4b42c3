"""Content codings: decoded, or in words why not; the bytes are never made up."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tachograph.dialects import decoding
from tachograph.dialects.decoding import Decoded, decode_content

BODY = b'{"text": "' + b"the harbour opens at eight. " * 400 + b'"}'


def _raw_deflate(body: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(body) + stream.flush()


CODINGS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def _headers(*codings: str) -> list[tuple[bytes, bytes]]:
    return [(b"Content-Encoding", coding.encode()) for coding in codings]


@given(st.sampled_from(sorted(CODINGS)), st.binary(min_size=1))
def test_each_coding_is_undone(coding: str, body: bytes) -> None:
    assert decode_content(_headers(coding), CODINGS[coding](body)) == Decoded(body)
    assert decode_content(_headers(coding.upper()), CODINGS[coding](body)) == Decoded(body)


def test_deflate_is_understood_with_and_without_its_header() -> None:
    assert decode_content(_headers("deflate"), _raw_deflate(BODY)) == Decoded(BODY)


def test_several_codings_are_undone_from_the_last() -> None:
    twice = brotli.compress(gzip.compress(BODY))
    assert decode_content(_headers("gzip, br"), twice) == Decoded(BODY)
    assert decode_content(_headers("gzip", "br"), twice) == Decoded(BODY)
    assert decode_content(_headers("identity"), BODY) == Decoded(BODY)
    assert decode_content([(b"accept-encoding", b"gzip")], BODY) == Decoded(BODY)
    for coding in ("br", "zstd", "compress"):
        assert decode_content(_headers(coding), b"") == Decoded(b"")


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_members_behind_one_another_are_all_decoded(coding: str) -> None:
    assert decode_content(_headers(coding), CODINGS[coding](BODY) + CODINGS[coding](b"more")) == Decoded(BODY + b"more")
    long = random.Random(7).randbytes(20_000)
    assert decode_content(_headers(coding), CODINGS[coding](long) * 2) == Decoded(long * 2)


@pytest.mark.parametrize("coding", sorted(CODINGS))
def test_a_body_that_ends_early_gives_what_there_is_and_says_so(coding: str) -> None:
    noise = random.Random(7).randbytes(60_000)
    decoded = decode_content(_headers(coding), CODINGS[coding](noise)[:40_000])
    assert decoded.body is not None
    assert noise.startswith(decoded.body)
    assert not decoded.complete


@pytest.mark.parametrize("coding", sorted(CODINGS))
def test_a_body_that_is_not_what_its_header_says_is_not_decoded(coding: str) -> None:
    decoded = decode_content(_headers(coding), b"plain text, not compressed at all")
    assert decoded.body is None
    assert decoded.reason is not None
    assert decoded.reason.startswith("said to be ")


@pytest.mark.parametrize("coding", sorted(CODINGS))
def test_a_small_body_may_not_unfold_without_end(coding: str) -> None:
    decoded = decode_content(_headers(coding), CODINGS[coding](bytes(3_000_000)), most=1_000_000)
    assert decoded == Decoded(None, "unfolds to more than 1000000 bytes, not decoded")
    assert decode_content(_headers(coding), CODINGS[coding](bytes(999)), most=999).body == bytes(999)


def test_r03_an_empty_body_stays_empty_under_a_gzip_header(shared: Path) -> None:
    response = json.loads((shared / "cases" / "R03_empty_gzip.json").read_bytes())["response"]
    headers = [(name.encode(), value.encode()) for name, value in response["headers"]]
    assert decode_content(headers, b"") == Decoded(b"")


def test_r04_a_coding_without_a_decoder_is_named() -> None:
    assert decode_content(_headers("compress"), b"x").reason == "encoded: compress, not decoded here"
    script = """
import sys
sys.modules.update(brotli=None, brotlicffi=None, zstandard=None)
from tachograph.dialects.decoding import decode_content
print([decode_content([(b"content-encoding", coding)], b"x") for coding in (b"br", b"zstd")])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.count("not decoded here") == 2
    assert decoding._first_module("no_such_module_of_ours") is None
