"""The search for secrets finds what it is meant to find: otherwise an empty result says nothing."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from urllib.parse import quote

import pytest
import zstandard

from tests.gauntlet.leaks import leaks

SECRET = "sk-live/4f9Zq7 tide"
FILE = Path("f")
RAW = SECRET.encode()
FORMS = {
    "plain": RAW,
    "utf-16": SECRET.encode("utf-16-le"),
    "hex": RAW.hex().encode(),
    "percent": quote(SECRET).encode(),
    "base64": base64.b64encode(b"{}" + RAW + b"}"),
    "base64url": base64.urlsafe_b64encode(b"{" + RAW + b"???"),
    "zlib": b"head" + zlib.compress(b"x" * 50 + RAW) + b"tail",
    "zstd": b"head" + zstandard.compress(b"x" * 50 + RAW),
    "reversed": RAW[::-1],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_each_form(form: str) -> None:
    assert leaks({FILE: b"\0" * 9 + FORMS[form]}, [SECRET])


def test_nothing_is_found_where_nothing_is() -> None:
    assert leaks({FILE: b"sk-live/4f9Zq8 tide" * 9}, [SECRET]) == []
