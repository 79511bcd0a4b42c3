"""Who a name stands for: did:key by itself, did:web by its document, no other method (evidence.md, "Keys and names").

Guarantees:

- a key counts for a DID only where its document lists it under `assertionMethod`; standing under `verificationMethod`
  alone, or under another controller, it does not;
- what could not be resolved is `Unresolved` with a reason, never a key: an unknown method, no network, a document that
  is too large, not strict JSON, of another id, or served from an address that the method does not allow;
- an identity is `ok` only against what the verifier brought (`Pins`). A store's own key, or a document that lies in the
  evidence, is no pin.

Sources: W3C DID Core 1.0 (5.2, 5.3.2), did:key 0.9, did:web. Reaches the network by the `fetch` that is passed in only.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import base58

from tachograph.canonical import NotCanonical, canonical, read_exact
from tachograph.errors import UsageError
from tachograph.signing.keys import KeyRefused, PublicKey, from_multibase, from_reference

Fetch = Callable[[str], bytes]
"""Gives the bytes at a URL, or raises OSError or FetchRefused."""

MOST_BYTES = 1 << 16  # of a DID document; those of operators with some keys are below 4 KB
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\Z")
_SEGMENT = re.compile(r"([A-Za-z0-9._-]|%[0-9A-Fa-f]{2})+\Z")
_LOOPBACK = frozenset(("localhost", "127.0.0.1"))


class FetchRefused(Exception):
    """A fetch was not done, or not to its end: a redirect, too many bytes, an address that is not allowed."""


@dataclass(frozen=True)
class Resolved:
    """A DID and the keys that may sign for it, by their DID URLs, in the order of its document."""

    did: str
    keys: Mapping[str, PublicKey]


@dataclass(frozen=True)
class Unresolved:
    """A DID that stands for no key here, and why: a stable code, and a sentence."""

    did: str
    reason: str
    message: str


def resolve(reference: str, *, fetch: Fetch | None = None, loopback: bool = False) -> Resolved | Unresolved:
    """Return the keys of a DID or of the DID in a DID URL. Raises nothing that a DID or a document can cause.

    `fetch` is asked for did:web; `loopback` lets it be a plain http address of this machine, for tests.
    """
    did = reference.partition("#")[0]
    method = did.split(":")[1] if did.startswith("did:") and did.count(":") >= 2 else ""
    if method == "key":
        try:
            key = from_reference(did)
        except KeyRefused as fault:
            return Unresolved(did, fault.reason, str(fault))
        return Resolved(did, {key.reference(): key})
    if method != "web":
        return Unresolved(did, "did_method_unknown", f"{_short(did)}: no method that this version resolves")
    url = web_url(did, loopback=loopback)
    if url is None:
        return Unresolved(did, "did_web_address", f"{_short(did)} names no https address")
    if fetch is None:
        return Unresolved(did, "did_web_offline", f"{_short(did)} lies at {url}, and nothing is fetched here")
    try:
        data = fetch(url)
    except (OSError, FetchRefused) as fault:
        return Unresolved(did, "did_web_unreachable", f"{url}: {fault}")
    return read_document(did, data)


def key_of(reference: str, *, fetch: Fetch | None = None, loopback: bool = False) -> PublicKey | Unresolved:
    """Return the key that a DID URL names; of a DID without fragment its one key."""
    resolved = resolve(reference, fetch=fetch, loopback=loopback)
    if isinstance(resolved, Unresolved):
        return resolved
    if "#" in reference:
        key = resolved.keys.get(reference)
    else:
        key = next(iter(resolved.keys.values())) if len(resolved.keys) == 1 else None
    if key is None:
        return Unresolved(resolved.did, "key_not_listed", f"{_short(reference)} is no key that may sign for it")
    return key


def web_url(did: str, *, loopback: bool = False) -> str | None:
    """Return where a did:web's document lies, or None where the method does not allow it (did:web, "Read")."""
    first, *path = did.removeprefix("did:web:").split(":")
    host, _, port = first.replace("%3a", "%3A").partition("%3A")
    local = host.lower() in _LOOPBACK
    if not did.startswith("did:web:") or not _HOST.match(host) or ("%3A" in first and not port):
        return None
    if port and (not port.isascii() or not port.isdigit() or len(port) > 5 or not 0 < int(port) < 1 << 16):
        return None
    if local is not loopback or (not local and (host.rpartition(".")[2].isdigit() or "." not in host)):
        return None
    if any(not _SEGMENT.match(one) or unquote(one) in (".", "..") or "/" in unquote(one) for one in path):
        return None
    where = "/".join(path) if path else ".well-known"
    return f"{'http' if local else 'https'}://{host}{':' + port if port else ''}/{where}/did.json"


def read_document(did: str, data: bytes) -> Resolved | Unresolved:
    """Return the keys that a DID document lists under `assertionMethod`."""
    if len(data) > MOST_BYTES:
        return Unresolved(did, "did_document_large", f"the document of {_short(did)} has over {MOST_BYTES} bytes")
    try:
        document = read_exact(data)
        if not isinstance(document, dict) or document.get("id") != did:
            raise ValueError("it is the document of another id")
        listed = _dicts(document.get("verificationMethod", []))
        methods = {_absolute(did, one["id"]): one for one in listed}
        if len(methods) != len(listed):
            raise ValueError("two verification methods of one id")
        keys = {}
        for one in document.get("assertionMethod", []):
            method = one if isinstance(one, dict) else methods.get(_absolute(did, one))
            key = None if method is None else _key_of_method(did, method)
            if key is not None and method is not None:
                keys[_absolute(did, method["id"])] = key
    except (NotCanonical, KeyRefused, KeyError, TypeError, ValueError, AttributeError) as fault:
        return Unresolved(did, "did_document", f"the document of {_short(did)}: {fault}")
    if not keys:
        return Unresolved(did, "key_not_listed", f"{_short(did)} lists no Ed25519 key under assertionMethod")
    return Resolved(did, keys)


def _dicts(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("its verification methods are no list of objects")
    return value


def _absolute(did: str, name: str) -> str:
    return did + name if name.startswith("#") else name


def _key_of_method(did: str, method: Mapping[str, Any]) -> PublicKey | None:
    """The key of a verification method; None of another kind of key, or under another controller."""
    if method["controller"] != did or not _absolute(did, method["id"]).startswith(did + "#"):
        return None
    kind = method["type"]
    if kind in ("Multikey", "Ed25519VerificationKey2020"):
        text = method["publicKeyMultibase"]
        return from_multibase(text) if kind != "Multikey" or text.startswith("z6Mk") else None
    if kind == "Ed25519VerificationKey2018":
        return PublicKey(base58.b58decode(method["publicKeyBase58"]))
    if kind in ("JsonWebKey2020", "JsonWebKey"):
        jwk = method["publicKeyJwk"]
        if jwk["kty"] != "OKP" or jwk["crv"] != "Ed25519" or "d" in jwk:
            return None
        return PublicKey(_base64url(jwk["x"]))
    return None


def _base64url(text: str) -> bytes:
    if not re.fullmatch(r"[A-Za-z0-9_-]{43}", text):
        raise ValueError("a JWK's x is 43 characters of base64url")
    try:
        return urlsafe_b64decode(text + "=")
    except binascii.Error as fault:
        raise ValueError(str(fault)) from None


def document(keys: Sequence[PublicKey], *, did: str | None = None, events: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """Return a DID document (RFC 8785) under which these keys sign, the first of them its id unless `did` names one.

    `events` are the key events (`signing.events`) by which each key continues the one before.
    """
    did = did or keys[0].did_key()
    methods = [
        {"id": f"{did}#{key.multibase()}", "type": "Multikey", "controller": did, "publicKeyMultibase": key.multibase()}
        for key in keys
    ]
    said: dict[str, Any] = {
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
        "id": did,
        "verificationMethod": methods,
        "assertionMethod": [one["id"] for one in methods],
    }
    if events:
        said["keyEvents"] = [dict(one) for one in events]
    return canonical(said)


@dataclass(frozen=True)
class Identity:
    """Whether a signer is known to who verifies: `ok` or `not_checked`, and the reason."""

    state: str
    reason: str


@dataclass(frozen=True)
class Pins:
    """What the verifier brought: keys, and did:web names with what their documents said."""

    keys: frozenset[PublicKey] = frozenset()
    names: tuple[Resolved | Unresolved, ...] = ()

    @classmethod
    def brought(cls, trust: Iterable[str], *, fetch: Fetch | None = None, loopback: bool = False) -> Pins:
        """Read pins: each a did:key, a did:web, or a file (PEM, a DID document, or one DID a line).

        Raises UsageError for one that names nothing, OSError where a file cannot be read.
        """
        keys: set[PublicKey] = set()
        names: dict[str, Resolved | Unresolved] = {}
        for one in trust:
            try:
                for did in [one] if one.startswith("did:") else _in_file(one):
                    if isinstance(did, PublicKey):
                        keys.add(did)
                    elif did.startswith("did:web:"):
                        names[did.partition("#")[0]] = resolve(did, fetch=fetch, loopback=loopback)
                    else:
                        keys.add(from_reference(did))
            except FileNotFoundError:
                raise UsageError(f"--trust takes a did:key, a did:web or a file with keys, not {one!r}") from None
            except (KeyRefused, ValueError) as fault:
                raise UsageError(f"--trust {one}: {fault}") from None
        return cls(frozenset(keys), tuple(names.values()))

    def judge(self, key: PublicKey, *, line: Sequence[PublicKey] = ()) -> Identity:
        """Say whether the key that verified a payload is known: pinned itself, or of one line with a pinned one.

        `line` are the keys that it replaced and that replaced it (`History.line`).
        """
        for one in (key, *line):
            beside = "" if one == key else f", of one line with {one.did_key()}"
            if one in self.keys:
                return Identity("ok", key.did_key() + beside)
            for name in self.names:
                if isinstance(name, Resolved) and one in name.keys.values():
                    return Identity("ok", f"{name.did}, {key.did_key()}{beside}")
        said = [f"signer not known to you: {key.did_key()}"]
        said += [name.message for name in self.names if isinstance(name, Unresolved)]
        return Identity("not_checked", "; ".join(said))


def _in_file(path: str) -> list[str | PublicKey]:
    with open(path, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"a file of keys has at most {MOST_BYTES} bytes")
    if b"-----BEGIN" in data:
        return [PublicKey.from_pem(data)]
    if data.lstrip().startswith(b"{"):
        try:
            did = read_exact(data).get("id")
        except NotCanonical as fault:
            raise ValueError(f"no DID document: {fault.reason}") from None
        resolved = read_document(str(did), data)
        if isinstance(resolved, Unresolved):
            raise ValueError(resolved.message)
        return list(resolved.keys.values())
    found = [line.strip() for line in data.decode().splitlines() if line.strip()]
    if not found:
        raise ValueError("the file names no key")
    return list(found)


def _short(text: str) -> str:
    return ascii(text[:200])[1:-1]
