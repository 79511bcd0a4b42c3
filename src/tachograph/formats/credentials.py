"""Credentials: which headers, query keys and variables hold one, and what stands in its place.

Credentials are never written anywhere (capture-v1 rule 7). Whoever writes a header, a URL or an environment asks here
first, writes the placeholder, and may make a keyed tag from the value that was taken out. Invariants:

- a placeholder is a function of the public prefix, the length and the class of each byte, and of nothing else: two
  secrets of one shape have one placeholder, and a placeholder is its own placeholder;
- all bytes that are not the value of a credential stay as they were sent, percent-encoding and order included;
- a name that only looks like one (`x-ratelimit-remaining-tokens`, `idempotency-key`, `nextPageToken`) stays: what is
  taken out no longer decides a match, so a wrong guess here would let one question get the answer of another;
- credentials inside a path (webhook URLs) are not recognised.

Standard library only, nothing imported: it runs in recorded programs for each request (12 headers in under 5 us).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Pairs = list[tuple[bytes, bytes]]
    Cut = Callable[[bytes], tuple[bytes, Pairs]]

# --- the shape of a value ---------------------------------------------------------------------------------------------


# Lower and upper case become `a` and `A`, digits `0`, so that hexadecimal, UUIDs and base64 stay well-formed.
# Separators stay, since they are the shape; `_` and `-`, `+` and `/` share one sign. All else becomes `*`.
def _class_of(sign: str) -> str:
    if sign.isalpha():
        return "a" if sign.islower() else "A"
    if sign.isdigit():
        return "0"
    return sign if sign in ' .,:;="-' else {"_": "-", "+": "+", "/": "+"}.get(sign, "*")


_CLASSES = "".join([_class_of(chr(code)) for code in range(128)] + ["*"] * 128).encode("ascii")

_SCHEMES = frozenset(
    b"bearer basic digest token negotiate ntlm apikey api-key key bot oauth dpop hmac signature sharedkey "
    b"sharedkeylite sharedaccesssignature aws4-hmac-sha256 hawk mac".split()
)

# Longest first. Each is printed in its provider's documentation, so that it says who is called and nothing more.
_PREFIXES = tuple(
    sorted(
        b"sk- pk- sk-ant- sk-ant-api03- sk-ant-admin01- sk-ant-oat01- sk-proj- sk-svcacct- sk-or-v1- sk-lf- pk-lf- "
        b"sk_live_ sk_test_ pk_live_ pk_test_ rk_live_ rk_test_ whsec_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- "
        b"xoxb- xoxp- xoxa- xoxr- xoxs- xapp- AKIA ASIA AIza ya29. hf_ gsk_ xai- pplx- r8_ nvapi- tgp_v1_ lsv2_pt_ "
        b"lsv2_sk_ SG. npm_ pypi- dop_v1_ shpat_ eyJ".split(),
        key=len,
        reverse=True,
    )
)


def placeholder_like(value: bytes) -> bytes:
    """Return bytes of the same length, character classes, scheme and well-known prefix that hold no secret."""
    start = _public_length(value)
    return value[:start] + value[start:].translate(_CLASSES)


def classes_of(value: bytes) -> bytes:
    """Return the class of each byte, public prefix or not: equal for a value and its placeholder."""
    return value.translate(_CLASSES)


def _public_length(value: bytes) -> int:
    """Count the leading bytes that are public: `Bearer `, `sk-ant-` and the like, or both."""
    scheme, space, _ = value[:24].partition(b" ")
    start = len(scheme) + 1 if space and scheme.lower() in _SCHEMES else 0
    if value.startswith(_PREFIXES, start):
        for prefix in _PREFIXES:
            if value.startswith(prefix, start):
                return start + len(prefix)
    return start


# --- headers ----------------------------------------------------------------------------------------------------------

_HEADERS = frozenset(
    b"authorization proxy-authorization cookie cookie2 set-cookie set-cookie2 x-api-key api-key x-goog-api-key "
    b"x-amz-security-token token auth-token x-auth x-auth-key dpop".split()
)
_WORDS_THAT_HOLD = (b"secret", b"password", b"passwd", b"passphrase", b"api-key", b"apikey", b"access-key")
_LAST_WORDS = frozenset(b"token authorization cookie jwt credential passcode".split())
# `page-token` and its like say where a list goes on, `idempotency-key` and its like name a thing: none opens a door.
_PLACES = frozenset(b"continuation next page sync pagination resume cursor start end".split())
_NAMES = frozenset(
    b"idempotency cache surrogate partition partitionkey routing websocket public dedup deduplication sort primary "
    b"foreign message request object group row".split()
)
_URLS = frozenset((b"location", b"content-location", b"referer"))

_KNOWN: dict[bytes, Cut | None] = {}  # by the name as sent; None: no credential
_SHAPES: dict[bytes, bytes] = {}  # placeholders by value: a program sends the same key with each request
_MOST_NAMES = 4096  # a program that sends random header names, or values, must not make us grow


def is_credential_header(name: bytes) -> bool:
    """Say whether a header of this name (any case) holds a credential."""
    try:
        how = _KNOWN[name]
    except KeyError:
        how = _learn(name)
    return how is not None and how is not _cut_url


def redact_headers(raw: Sequence[tuple[bytes, bytes]]) -> tuple[Pairs, Pairs]:
    """Return the headers as they may be written, and the `(name, value)` pairs that were taken out, in order.

    A `set-cookie` keeps its name and attributes, a `cookie` its names; their values are taken out one by one, as
    `set-cookie:NAME`. A URL in `location`, `content-location` or `referer` loses what `redact_url` takes.
    """
    kept: Pairs = []
    removed: Pairs = []
    for pair in raw:
        name = pair[0]
        try:
            how = _KNOWN[name]
        except KeyError:
            how = _learn(name)
        if how is None:
            kept.append(pair)
            continue
        value, taken = how(pair[1])
        kept.append((name, value))
        for what, secret in taken:
            removed.append((name + what, secret))
    return kept, removed


def _learn(name: bytes) -> Cut | None:
    if len(_KNOWN) >= _MOST_NAMES:
        _KNOWN.clear()
    lower = name.lower()
    how: Cut | None = None
    if lower in _URLS:
        how = _cut_url
    elif _names_a_credential(lower):
        how = _cut_set_cookie if lower.startswith(b"set-") else _cut_cookie if b"cookie" in lower else _cut_value
    _KNOWN[name] = how
    return how


def _names_a_credential(lower: bytes) -> bool:
    if lower in _HEADERS:
        return True
    dashed = lower.replace(b"_", b"-")
    for word in _WORDS_THAT_HOLD:
        if word in dashed:
            return True
    words = dashed.split(b"-")
    last, before = words[-1], words[-2] if len(words) > 1 else b""
    if last == b"token":
        return before not in _PLACES
    if last == b"key":
        return len(words) > 1 and before not in _NAMES
    return last in _LAST_WORDS


def _cut_value(value: bytes) -> tuple[bytes, Pairs]:
    if not value:
        return value, []
    shape = _SHAPES.get(value)
    if shape is None:
        if len(_SHAPES) >= _MOST_NAMES:
            _SHAPES.clear()
        shape = _SHAPES[value] = placeholder_like(value)
    return shape, [(b"", value)]


def _cut_cookie(value: bytes) -> tuple[bytes, Pairs]:
    """`a=1; b=2`: names stay, values go."""
    taken: Pairs = []
    return b";".join([_one_cookie(part, taken) for part in value.split(b";")]), taken


def _cut_set_cookie(value: bytes) -> tuple[bytes, Pairs]:
    """`name=value; Path=/; HttpOnly`: the name and what follows the first `;` stay."""
    first, semicolon, attributes = value.partition(b";")
    taken: Pairs = []
    return _one_cookie(first, taken) + semicolon + attributes, taken


def _one_cookie(part: bytes, taken: Pairs) -> bytes:
    name, equals, secret = part.partition(b"=")
    if not equals:
        name, secret = b"", part
    if secret.strip():
        taken.append((b":" + name.strip() if name else b"", secret))
    return name + equals + secret.translate(_CLASSES)


def _cut_url(value: bytes) -> tuple[bytes, Pairs]:
    url, taken = redact_url(value.decode("latin-1"))
    return url.encode("latin-1"), [
        (b"?" + key.encode("latin-1"), secret.encode("utf-8", "surrogateescape")) for key, secret in taken
    ]


# --- URLs -------------------------------------------------------------------------------------------------------------

# Compared in lower case without `-`, `_` and `.`: `api_key`, `apiKey` and `api-key` are one name.
_QUERY_ENDS = (
    "apikey", "accesskey", "accesskeyid", "privatekey", "subscriptionkey", "accountkey", "authkey", "appkey", "secret",
    "password", "passwd", "passphrase", "token", "signature", "credential", "credentials",
)  # fmt: skip
_QUERY_KEYS = frozenset(
    (
        "sig", "auth", "authorization", "pwd", "pass", "jwt", "hmac", "bearer", "secretkey",
    )
)  # fmt: skip
_QUERY_PLACES = (
    "pagetoken", "nexttoken", "continuationtoken", "synctoken", "paginationtoken", "resumetoken", "starttoken",
    "cursortoken", "publickey",
)  # fmt: skip
# Also the names of plain parameters (`?key=user:1`, `?token=BTC`): here the value has to look like one too.
_AMBIGUOUS = frozenset(("key", "token"))
_ALWAYS_SECRET = 16  # characters; shorter values of ambiguous names are at least compared by shape


def redact_url(url: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the URL as it may be written, and `(key, decoded value)` of what was taken out, in order.

    Values of credential keys in query and fragment, and what stands before the host (key `userinfo`) if it is a user
    with a password, or a token.
    """
    if "?" not in url and "@" not in url and "#" not in url:
        return url, []
    taken: list[tuple[str, str]] = []
    rest, hash_, fragment = url.partition("#")
    place, mark, query = rest.partition("?")
    place = _without_userinfo(place, taken)
    if query:
        query = _each_pair(query, taken)
    if "=" in fragment:
        fragment = _each_pair(fragment, taken)
    return (place + mark + query + hash_ + fragment, taken) if taken else (url, [])


def is_credential_key(key: str, value: str) -> bool:
    """Say whether `key=value` (as sent) in a query holds a credential. A placeholder gets the same answer."""
    name = _decoded(key).lower().replace("-", "").replace("_", "").replace(".", "")
    if name in _AMBIGUOUS:
        return _looks_secret(value)
    if name.endswith(_QUERY_PLACES):
        return False
    return name in _QUERY_KEYS or name.endswith(_QUERY_ENDS)


def comparable_url(url: str) -> str:
    """Return the URL without its credentials and fragment, for a comparison that credentials must not decide."""
    rest = url.partition("#")[0]
    if "?" not in rest and "@" not in rest:
        return rest
    place, mark, query = rest.partition("?")
    scheme, slashes, after = place.partition("://")
    if "@" in after.partition("/")[0]:
        place = scheme + slashes + after[after.partition("/")[0].rindex("@") + 1 :]
    left: list[str] = []
    for piece in query.split("&"):
        key, _, value = piece.partition("=")
        if not is_credential_key(key, value):
            left.append(_each_pair(piece, []))
        elif len(value) < _ALWAYS_SECRET and _decoded(key).lower() in _AMBIGUOUS:
            left.append(key + "=" + _shape(value))
    return place + (mark if left else "") + "&".join(left)


def _without_userinfo(place: str, taken: list[tuple[str, str]]) -> str:
    scheme, slashes, after = place.partition("://")
    authority, slash, path = after.partition("/")
    userinfo, at, host = authority.rpartition("@")
    if ":" not in userinfo and not _looks_secret(userinfo):  # `ssh://git@host` holds none
        return place
    taken.append(("userinfo", _decoded(userinfo)))
    shape = ":".join([_shape(part) for part in userinfo.split(":")])
    return scheme + slashes + shape + at + host + slash + path


def _each_pair(query: str, taken: list[tuple[str, str]]) -> str:
    return "&".join([_one_pair(piece, taken) for piece in query.split("&")])


def _one_pair(piece: str, taken: list[tuple[str, str]]) -> str:
    key, equals, value = piece.partition("=")
    if value and is_credential_key(key, value):
        taken.append((key, _decoded(value)))
        return key + equals + _shape(value)
    if ";" in value:  # some servers still separate by it; a credential may not hide behind it
        return ";".join([_one_pair(part, taken) for part in piece.split(";")])
    return piece


def _looks_secret(value: str) -> bool:
    """Of an ambiguous key: long, or letters and digits mixed, and nothing that a token has not."""
    plain = value.replace("%", "")
    if len(value) < 6 or value.isdigit() or plain.translate(_TOKEN_SIGNS):
        return False
    if len(value) >= 24:
        return True
    mixed = len(value) >= 12 and not value.islower() and not value.isupper()
    return mixed or (any(map(str.isdigit, value)) and any(map(str.isalpha, value)))


_TOKEN_SIGNS = {code: None for code in range(128) if chr(code).isalnum() or chr(code) in "-._~+/=*"}


def _shape(value: str) -> str:
    """The placeholder of a value in a URL; an escape stays an escape, of `*`."""
    head, *escaped = value.split("%")
    shape = placeholder_like(head.encode("utf-8", "surrogateescape")).decode("ascii")
    for part in escaped:
        shape += "%2A" + part[2:].encode("utf-8", "surrogateescape").translate(_CLASSES).decode("ascii")
    return shape


def _decoded(text: str) -> str:
    head, *escaped = text.replace("+", " ").split("%")
    out = bytearray(head.encode("utf-8", "surrogateescape"))
    for part in escaped:
        try:
            out.append(int(part[:2], 16))
            out += part[2:].encode("utf-8", "surrogateescape")
        except ValueError:
            out += b"%" + part.encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")


# --- variables of the environment -------------------------------------------------------------------------------------

_VARIABLE_LAST = frozenset(
    (
        "KEY", "KEYS", "APIKEY", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD",
        "PASSCODE", "CREDENTIAL", "CREDENTIALS", "AUTH", "COOKIE", "JWT", "PAT", "DSN",
    )
)  # fmt: skip
_VARIABLE_WORDS = ("SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY")
# What a name says about a credential is no credential: where it lies, how long it lives, what it is called.
_ABOUT = frozenset(
    (
        "FILE", "PATH", "DIR", "DIRECTORY", "FOLDER", "HOME", "SOCK", "NAME", "ARN", "TTL", "LENGTH", "LIMIT", "COUNT",
        "TYPE", "ALGORITHM", "URL", "URI",
    )
)  # fmt: skip
_NOT_VARIABLES = frozenset(
    (
        "PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "SESSION_MANAGER", "PUBLIC_KEY", "SORT_KEY",
    )
)  # fmt: skip
_COUNTED = ("KEY", "TOKEN", "AUTH")  # may also be counted or switched on: `MAX_TOKEN=4096`, `USE_AUTH=true`
_IN_VALUES = ("password=", "accountkey=", "sharedaccesskey=", "client_secret=", "-----begin ")


def is_credential_variable(name: str, value: str) -> bool:
    """Say whether an environment variable holds a credential, by its name or by what its value is.

    A URL with a user's password or a credential key, a connection string, a private key, and a value that begins as a
    well-known kind of key does, count under any name. An empty value holds nothing.
    """
    if not value:
        return False
    upper = name.upper()
    words = upper.replace("-", "_").rstrip("0123456789_").split("_")
    if upper not in _NOT_VARIABLES and words[-1] not in _ABOUT and not (words[-1] in _COUNTED and _is_setting(value)):
        if words[-1] in _VARIABLE_LAST or words[-1].endswith("TOKEN"):
            return True
        if any(word in upper for word in _VARIABLE_WORDS):
            return True
    return _value_is_credential(value)


def _is_setting(value: str) -> bool:
    return (len(value) <= 7 and value.isdigit()) or value.lower() in ("true", "false", "yes", "no", "on", "off", "none")


def _value_is_credential(value: str) -> bool:
    if redact_url(value)[1]:
        return True
    lower = value.lower()
    if any(sign in lower for sign in _IN_VALUES):
        return True
    sent = value.encode("utf-8", "surrogateescape")
    return len(sent) >= 20 and b"/" not in sent and _public_length(sent.rpartition(b" ")[2]) > 0
