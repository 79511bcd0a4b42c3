"""Credentials: none is kept, nothing else is touched, and a placeholder says nothing but the shape."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.formats.credentials import (
    comparable_url,
    is_credential_header,
    is_credential_key,
    is_credential_variable,
    placeholder_like,
    redact_headers,
    redact_url,
)

KEY = "sk-ant-api03-Zq8Yh2Lw0Pp4Rk7Tt1Vv5Nn9Mm3Cc6Xx-_AA"

HOLDING = [
    b"Authorization", b"PROXY-AUTHORIZATION", b"x-api-key", b"Api-Key", b"x-goog-api-key", b"Cookie", b"set-cookie",
    b"X-Amz-Security-Token", b"x-auth-token", b"PRIVATE-TOKEN", b"x-client-secret", b"x-my-password-hash",
    b"ocp-apim-subscription-key", b"x-functions-key", b"X_API_KEY", b"x-csrf-token", b"cf-access-client-secret",
    b"x-serverless-authorization", b"x-openai-api-key-2", b"DPoP", b"x-auth", b"cookie2", b"x-session-cookie",
]  # fmt: skip
PLAIN = [
    b"x-ratelimit-remaining-tokens", b"anthropic-ratelimit-tokens-limit", b"x-ratelimit-limit-requests",
    b"idempotency-key", b"Sec-WebSocket-Key", b"x-continuation-token", b"x-next-page-token", b"content-type",
    b"access-control-allow-credentials", b"www-authenticate", b"x-request-id", b"anthropic-version", b"x-token-count",
    b"key", b"x-keyboard", b"mcp-session-id", b"location", b"host", b"x-cache-key",
]  # fmt: skip


@pytest.mark.parametrize("name", HOLDING)
def test_a_header_that_holds_a_credential_is_known_by_its_name(name: bytes) -> None:
    assert is_credential_header(name)
    assert is_credential_header(name.upper())


@pytest.mark.parametrize("name", PLAIN)
def test_a_header_that_only_looks_like_one_is_left(name: bytes) -> None:
    assert not is_credential_header(name)
    if name != b"location":
        assert redact_headers([(name, KEY.encode())]) == ([(name, KEY.encode())], [])


def test_headers_keep_their_order_and_case_and_lose_only_secrets() -> None:
    raw = [
        (b"Host", b"api.example.test"),
        (b"Authorization", b"Bearer " + KEY.encode()),
        (b"accept", b"*/*"),
        (b"X-API-Key", KEY.encode()),
        (b"x-empty-token", b""),
    ]
    kept, removed = redact_headers(raw)
    assert [name for name, _ in kept] == [name for name, _ in raw]
    assert kept[1][1] == b"Bearer sk-ant-api03-" + b"Aa0Aa0Aa0Aa0Aa0Aa0Aa0Aa0Aa0Aa0Aa--AA"
    assert [len(value) for _, value in kept] == [len(value) for _, value in raw]
    assert removed == [(b"Authorization", b"Bearer " + KEY.encode()), (b"X-API-Key", KEY.encode())]
    assert KEY.encode()[14:] not in b"".join(value for _, value in kept)


def test_a_set_cookie_keeps_its_name_and_attributes() -> None:
    kept, removed = redact_headers([(b"Set-Cookie", b"sid=s3cr3t+Value/9; Path=/; Max-Age=60; HttpOnly")])
    assert kept == [(b"Set-Cookie", b"sid=a0aa0a+Aaaaa+0; Path=/; Max-Age=60; HttpOnly")]
    assert removed == [(b"Set-Cookie:sid", b"s3cr3t+Value/9")]


def test_a_cookie_keeps_its_names() -> None:
    kept, removed = redact_headers([(b"cookie", b"a=Secret1; flag; b=q=r")])
    assert kept == [(b"cookie", b"a=Aaaaaa0;aaaaa; b=a=a".replace(b";aaaaa", b"; aaaa"))]
    assert removed == [(b"cookie:a", b"Secret1"), (b"cookie", b" flag"), (b"cookie:b", b"q=r")]


def test_a_redirect_loses_the_signature_in_its_url() -> None:
    kept, removed = redact_headers([(b"location", b"https://s3.test/f?X-Amz-Signature=00ffAB&part=2")])
    assert kept == [(b"location", b"https://s3.test/f?X-Amz-Signature=00aaAA&part=2")]
    assert removed == [(b"location?X-Amz-Signature", b"00ffAB")]


def test_many_header_names_do_not_fill_the_memory() -> None:
    from tachograph.formats import credentials

    for number in range(10_000):
        redact_headers([(b"x-%d" % number, b"")])
    assert len(credentials._KNOWN) <= credentials._MOST_NAMES


# --- placeholders -----------------------------------------------------------------------------------------------------


@given(st.binary(max_size=80))
def test_a_placeholder_has_the_length_and_is_its_own_placeholder(value: bytes) -> None:
    shape = placeholder_like(value)
    assert len(shape) == len(value)
    assert placeholder_like(shape) == shape


def _sibling(sign: str, step: int) -> str:
    for alphabet in (string.ascii_lowercase, string.ascii_uppercase, string.digits):
        if sign in alphabet:
            return alphabet[(alphabet.index(sign) + step) % len(alphabet)]
    return {"_": "-", "-": "_", "+": "/", "/": "+"}.get(sign, sign)


@given(st.text(string.ascii_letters + string.digits + "-_+/", max_size=60), st.integers(1, 25))
def test_two_secrets_of_one_shape_have_one_placeholder(secret: str, step: int) -> None:
    other = "".join(_sibling(sign, step) for sign in secret)
    for prefix in ("sk-ant-", "Bearer "):
        secret_shape = placeholder_like((prefix + "q" + secret).encode())
        assert secret_shape == placeholder_like((prefix + "z" + other).encode())


@given(st.text(string.ascii_letters + string.digits, min_size=12, max_size=60))
def test_no_four_bytes_of_a_secret_survive(secret: str) -> None:
    shape = placeholder_like(b"zz" + secret.encode())
    for start in range(len(secret) - 3):
        piece = secret[start : start + 4]
        if set(piece) - set("aA0"):
            assert piece.encode() not in shape


def test_only_published_prefixes_stay() -> None:
    assert placeholder_like(b"sk-proj-Abc1") == b"sk-proj-Aaa0"
    assert placeholder_like(b"Basic dXNlcjpwYXNz") == b"Basic aAAaaaaaAAAa"
    assert placeholder_like(b"Bearer") == b"Aaaaaa"
    assert placeholder_like(b"hunter2 is mine") == b"aaaaaa0 aa aaaa"
    assert placeholder_like(b"0f8c-2b!\xff") == b"0a0a-0a**"


# --- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "written", "taken"),
    [
        ("https://h.test/p?api_key=Abc123&x=%7Ey", "https://h.test/p?api_key=Aaa000&x=%7Ey", [("api_key", "Abc123")]),
        ("https://h.test/p?api%5Fkey=Z9", "https://h.test/p?api%5Fkey=A0", [("api%5Fkey", "Z9")]),
        ("https://h.test/?sig=a%2Fb%3D", "https://h.test/?sig=a%2Aa%2A", [("sig", "a/b=")]),
        ("https://u:p1@h.test:8/x", "https://a:a0@h.test:8/x", [("userinfo", "u:p1")]),
        ("ssh://git@h.test/r", "ssh://git@h.test/r", []),
        ("https://h.test/cb#access_token=T0k&s=1", "https://h.test/cb#access_token=A0a&s=1", [("access_token", "T0k")]),
        ("https://h.test/?a=1;token=Abc123xyz", "https://h.test/?a=1;token=Aaa000aaa", [("token", "Abc123xyz")]),
        ("https://h.t/?X-Amz-Credential=%2Fx", "https://h.t/?X-Amz-Credential=%2Aa", [("X-Amz-Credential", "/x")]),
        ("https://h.test/?key=AIzaSyD3_x9", "https://h.test/?key=AIzaAaA0-a0", [("key", "AIzaSyD3_x9")]),
        ("https://h.test/?key=&api_key=", "https://h.test/?key=&api_key=", []),
        ("https://h.test/?key=AbcdefGhijkl", "https://h.test/?key=AaaaaaAaaaaa", [("key", "AbcdefGhijkl")]),
        ("/?key=abcdefghijklmnopqrstuvwx", "/?key=" + "a" * 24, [("key", "abcdefghijklmnopqrstuvwx")]),
        ("https://token9x8@h.test/", "https://aaaaa0a0@h.test/", [("userinfo", "token9x8")]),
        ("https://h.test/?token=a%20b1+c%zz", "https://h.test/?token=a%2Aa0+a%2A", [("token", "a b1 c%zz")]),
        ("https://h.test/v1?api-version=2024", "https://h.test/v1?api-version=2024", []),
        ("/relative?client_secret=q", "/relative?client_secret=a", [("client_secret", "q")]),
    ],
)  # fmt: skip
def test_a_url_loses_its_credentials_and_nothing_else(url: str, written: str, taken: list[tuple[str, str]]) -> None:
    assert redact_url(url) == (written, taken)
    assert redact_url(written)[0] == written
    assert comparable_url(url) == comparable_url(written)


@pytest.mark.parametrize("key", ["pageToken", "next_page_token", "nextToken", "continuation-token", "model", "q"])
def test_a_key_that_says_where_a_list_goes_on_is_no_credential(key: str) -> None:
    assert not is_credential_key(key, "Cgh3b3JkMTIzNDU2Nzg5MDEyMzQ1Njc4OTA")


@pytest.mark.parametrize(
    "url",
    [
        "https://h.test/?key=user:1",
        "https://h.test/price?token=BTC",
        "https://h.test/?key=name",
        "https://h.test/?key=a1b2c",
        "https://h.test/?key=123456789012345678901234567890",
        "https://h.test/?key=configuration",
        "https://h.test/?key=%C3%A9a1b2c3é",
    ],
)
def test_an_ambiguous_key_needs_a_value_that_looks_like_a_secret(url: str) -> None:
    assert redact_url(url) == (url, [])
    assert comparable_url(url) == url


def test_credentials_never_decide_a_comparison_of_urls_but_short_ambiguous_values_still_do() -> None:
    assert comparable_url("https://a:b1@h.test/x?api_key=1&q=2#f") == "https://h.test/x?q=2"
    assert comparable_url("https://h.test/x?api_key=1") == "https://h.test/x"
    long = "0123456789abcdefXYZ"
    assert comparable_url(f"https://h.test/x?key={long}") == "https://h.test/x"
    assert comparable_url("https://h.test/x?key=user_1") != comparable_url("https://h.test/x?key=account_1")


@given(st.text(string.printable + "é漢", max_size=60))
def test_redacting_any_text_as_a_url_is_stable_and_keeps_its_length(url: str) -> None:
    written, taken = redact_url(url)
    assert redact_url(written)[0] == written
    if url.isascii():
        assert len(written) == len(url) or "%" in url
    if not taken:
        assert written == url


# --- variables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_ACCESS_KEY_ID", "AKIAxxxx"), ("HF_TOKEN", "t"),
        ("PGPASSWORD", "p"), ("MYSQL_PWD", "p"), ("API_KEY_2", "k"), ("github_token", "g"), ("APP_SECRET", "s"),
        ("DATABASE_URL", "postgres://u:p@db/x"), ("HOOK", "https://h.test/?sig=abc"), ("X", KEY),
        ("CONN", "Server=db;Password=q;"), ("PEM", "-----BEGIN PRIVATE KEY-----"), ("HDR", "Bearer " + KEY),
        ("PATHS", "/p?api_key=abc"), ("DB_PASSWORD", "123456"), ("PIN_SECRET", "1234"), ("AUTH_TOKEN", "abc"),
        ("GHTOKEN", "abc"),
    ],
)  # fmt: skip
def test_a_variable_that_holds_a_credential_is_known(name: str, value: str) -> None:
    assert is_credential_variable(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/bin"), ("PWD", "/home/u"), ("SSH_AUTH_SOCK", "/tmp/s"), ("MAX_TOKENS", "4096"),
        ("TOKENIZERS_PARALLELISM", "false"), ("OPENAI_API_KEY", ""), ("KEYBOARD", "us"), ("SECRET_NAME", "db"),
        ("GOOGLE_APPLICATION_CREDENTIALS_FILE", "/k.json"), ("BASE_URL", "https://h.test/v1"), ("USE_TOKEN", "true"),
        ("REPO", "ssh://git@h.test/r"), ("X", "sk-short"), ("MODEL", "hf_hub/models--of-some-length"),
        ("X", "a-long-value-without-any-prefix"), ("USE_AUTH", "yes"), ("MAX_TOKEN", "4096"), ("PUBLIC_KEY", "abc"),
    ],
)  # fmt: skip
def test_a_variable_that_holds_none_is_left(name: str, value: str) -> None:
    assert not is_credential_variable(name, value)
