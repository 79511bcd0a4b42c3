"""Content codings give the same bytes each time, and clients read them back."""

from __future__ import annotations

import gzip
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import UsageError
from tachograph.testing.codings import compress

BACK = {
    "identity": lambda data: data,
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "br": brotli.decompress,
    "zstd": lambda data: zstandard.ZstdDecompressor().decompress(data),
}


@pytest.mark.parametrize("coding", BACK)
@given(data=st.binary(max_size=200))
def test_what_is_coded_comes_back_and_is_coded_alike_twice(coding: str, data: bytes) -> None:
    coded = compress(data, coding)
    assert BACK[coding](coded) == data
    assert compress(data, coding) == coded


def test_an_unknown_coding_is_named() -> None:
    with pytest.raises(UsageError, match=r"'lzma'.*known are"):
        compress(b"", "lzma")
