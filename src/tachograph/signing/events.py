"""Key events: a key is registered, replaced, revoked; and what follows for what a key signed (evidence.md, "Keys").

Events are statement bodies (`type` "key") and leaves of the log. `new` is vouched for by the record that carries it;
`rotate` and `revoke` carry a signature of their own, by the key before or by the recovery key, over the event and the
log's origin, so that they can be checked in a DID document without the log, and used in no other log. Invariants:

- one role (`signer`, `log`, `recovery`) has one key at a time; a rotation proves possession of the new key;
- an event that nobody with the right signed changes nothing, and is a fault with its leaf;
- two rotations of one key, or a second registration for one role, are reported, and the first one holds: a recovery key
  is registered when the log begins, or whoever steals the signer's key can register one;
- a revocation is judged by trusted time or by leaf order in an anchored log; what neither decides is `undetermined`.

Times are milliseconds since 1970. Pure.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tachograph.canonical import NotCanonical, canonical
from tachograph.errors import FormatError
from tachograph.signing.dsse import pae
from tachograph.signing.keys import KeyRefused, PublicKey, SigningKey, from_reference

EVENT_TYPE = "application/vnd.tachograph.key-event.v1+json"
SIGNER, LOG, RECOVERY = "signer", "log", "recovery"
ROLES = (SIGNER, LOG, RECOVERY)
SUPERSEDED, CEASED, COMPROMISED = "superseded", "ceased", "compromised"
REASONS = (SUPERSEDED, CEASED, COMPROMISED)

VALID, INVALID, UNDETERMINED = "valid", "invalid", "undetermined"


def new(role: str, key: PublicKey) -> dict[str, Any]:
    """Return the event that registers a role's first key."""
    return {"event": "new", "role": role, **_names(key)}


def rotate(role: str, *, before: PublicKey, after: SigningKey, by: SigningKey, origin: str) -> dict[str, Any]:
    """Return the event that puts a key in another's place, signed by the key before or by the recovery key."""
    said = {"event": "rotate", "role": role, "replaces": before.reference(), "origin": origin, **_names(after.public)}
    possession = _signature(after, said)
    return {**said, "possession": possession, "authorization": _authorization(by, {**said, "possession": possession})}


def revoke(
    role: str, key: PublicKey, *, reason: str, by: SigningKey, origin: str, since: int | None = None
) -> dict[str, Any]:
    """Return the event that revokes a key: from this leaf on, or `since` a time (milliseconds since 1970)."""
    said: dict[str, Any] = {"event": "revoke", "role": role, "reason": reason, "origin": origin, **_names(key)}
    if since is not None:
        said["since"] = since
    return {**said, "authorization": _authorization(by, said)}


def _names(key: PublicKey) -> dict[str, Any]:
    return {"publicKeyRef": key.reference(), "algorithm": "ed25519", "keyDigest": key.key_digest()}


def _signature(key: SigningKey, said: Mapping[str, Any]) -> str:
    return "base64:" + b64encode(key.sign(pae(EVENT_TYPE, canonical(dict(said))))).decode()


def _authorization(by: SigningKey, said: Mapping[str, Any]) -> dict[str, str]:
    return {"publicKeyRef": by.public.reference(), "signatureBytes": _signature(by, said)}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where something stands: its leaf, whether a checkpoint kept elsewhere covers that leaf, and trusted time.

    It existed at `before` at the latest and was made at `after` at the earliest, each where an authority says so.
    """

    leaf: int | None = None
    anchored: bool = False
    after: int | None = None
    before: int | None = None


NOWHERE = Place()


@dataclass(frozen=True)
class Logged:
    """A key event with its place, and the key that signed the record that carries it."""

    body: Any
    by: PublicKey
    place: Place = NOWHERE


@dataclass(frozen=True)
class Fault:
    """An event that changes nothing: where it stands, a stable code, a sentence."""

    leaf: int | None
    reason: str
    message: str


@dataclass(frozen=True)
class Judgement:
    """Whether a key could vouch for what stands at a place: `valid`, `invalid` or `undetermined`, and why."""

    state: str
    reason: str


@dataclass
class _Life:
    """One key's life in one role."""

    key: PublicKey
    role: str
    registered: Place
    replaces: PublicKey | None = None
    replaced: Place | None = None
    revoked: Place | None = None
    since: int | None = None
    reason: str = ""


@dataclass
class History:
    """The keys of one log and what became of them."""

    origin: str
    faults: list[Fault] = field(default_factory=list)
    _lives: list[_Life] = field(default_factory=list)
    _active: dict[str, _Life] = field(default_factory=dict)

    @classmethod
    def of(cls, origin: str, events: Iterable[Logged]) -> History:
        """Take events in the order of the log. Raises nothing that an event can cause: see `faults`."""
        history = cls(origin)
        for event in events:
            try:
                history._take(event)
            except _Refused as fault:
                history.faults.append(Fault(event.place.leaf, fault.reason, str(fault)))
            except (KeyRefused, FormatError, NotCanonical, KeyError, TypeError, ValueError, AttributeError) as fault:
                reason = fault.reason if isinstance(fault, KeyRefused) else "key_event_format"
                history.faults.append(Fault(event.place.leaf, reason, f"a key event that does not parse: {fault}"))
        return history

    def active(self, role: str) -> PublicKey | None:
        """Return the key that has a role at the end."""
        life = self._active.get(role)
        return None if life is None else life.key

    def keys(self, role: str) -> list[PublicKey]:
        """Return every key that ever had a role, in the order of the log."""
        return [life.key for life in self._lives if life.role == role]

    def line(self, key: PublicKey) -> list[PublicKey]:
        """Return the keys of one line with a key, the nearest first: those before it, then those after it.

        A pin on one of them holds: the key before authorized its successor, which signed whose successor it is.
        """
        found: list[PublicKey] = []
        life = self._life(key)
        while life is not None and life.replaces is not None:
            found.append(life.replaces)
            life = self._life(life.replaces, life.role)
        after = next((one for one in self._lives if one.replaces == key), None)
        while after is not None:
            found.append(after.key)
            after = next((one for one in self._lives if one.replaces == after.key), None)
        return found

    def judge(self, key: PublicKey, place: Place, *, role: str = SIGNER) -> Judgement:
        """Say whether a key could vouch, in a role, for what stands at a place."""
        life = self._life(key, role)
        if life is None:
            return Judgement(INVALID, f"no leaf of the log registers {key.reference()}")
        begun = _order(life.registered, place, same=True)
        if begun == _LATER:
            return Judgement(INVALID, f"{_at(life.registered)} registered the key, after this")
        if life.revoked is not None:
            judged = _judge_revoked(life, place)
            if judged is not None:
                return judged
        if life.replaced is not None:
            order = _order(place, life.replaced, same=True)  # who is replaced may sign the record of it
            if order == _LATER:
                return Judgement(INVALID, f"the key was replaced at {_at(life.replaced)}, before this")
            if order == _UNKNOWN:
                return Judgement(UNDETERMINED, f"the key was replaced at {_at(life.replaced)}; neither order nor time")
        if begun == _UNKNOWN:
            return Judgement(UNDETERMINED, "neither leaf order nor trusted time says whether the key was registered")
        return Judgement(VALID, f"registered at {_at(life.registered)}")

    def _life(self, key: PublicKey, role: str | None = None) -> _Life | None:
        return next((one for one in self._lives if one.key == key and role in (None, one.role)), None)

    # -- events

    def _take(self, event: Logged) -> None:
        said = event.body
        role, key = said["role"], from_reference(said["publicKeyRef"])
        if role not in ROLES or said["keyDigest"] != key.key_digest() or said["algorithm"] != "ed25519":
            raise _Refused("key_event_format", "the key's role, digest or algorithm do not fit")
        take = {"new": self._new, "rotate": self._rotate, "revoke": self._revoke}.get(said["event"])
        if take is None:
            raise _Refused(
                "key_event_unknown", f"{str(said['event'])[:200]!r} is no event of keys that this version knows"
            )
        take(event, role, key)

    def _new(self, event: Logged, role: str, key: PublicKey) -> None:
        if role in self._active:
            raise _Refused(
                "key_registered_twice", f"the log has a {role} key already; this would put another beside it"
            )
        signer = self.active(SIGNER)
        if event.by != (key if role == SIGNER else signer):
            raise _Refused("key_not_authorized", f"the record that registers the {role} key is signed by another one")
        self._begin(_Life(key, role, event.place))

    def _rotate(self, event: Logged, role: str, key: PublicKey) -> None:
        said = event.body
        before = from_reference(said["replaces"])
        life = self._life(before, role)
        if life is None:
            raise _Refused("key_unknown", f"{before.reference()} was never the log's {role} key")
        self._authorized(said, life)
        unsigned = {name: value for name, value in said.items() if name not in ("authorization", "possession")}
        if not _verified(key, said["possession"], unsigned):
            raise _Refused("key_not_possessed", f"{key.reference()} did not sign its own registration")
        if life.replaced is not None:
            raise _Refused("key_rotated_twice", f"{before.reference()} has two successors: equivocation")
        if self._life(key) is not None:
            raise _Refused("key_registered_twice", f"{key.reference()} has been a key of this log before")
        life.replaced = event.place
        self._begin(_Life(key, role, event.place, replaces=before))

    def _revoke(self, event: Logged, role: str, key: PublicKey) -> None:
        said = event.body
        life = self._life(key, role)
        if life is None:
            raise _Refused("key_unknown", f"{key.reference()} was never the log's {role} key")
        since = said.get("since")
        if said["reason"] not in REASONS or not (since is None or (type(since) is int and since >= 0)):
            raise _Refused("key_event_format", "a revocation has a reason, and a time in milliseconds or none")
        self._authorized(said, life, revoking=True)
        if life.revoked is not None:
            raise _Refused("key_revoked_twice", f"{key.reference()} was revoked at {_at(life.revoked)}")
        life.revoked, life.since, life.reason = event.place, since, said["reason"]

    def _authorized(self, said: Mapping[str, Any], life: _Life, *, revoking: bool = False) -> None:
        """Refuse an event that neither the key it is about, nor its successor, nor the recovery key signed."""
        if said["origin"] != self.origin:
            raise _Refused("key_event_origin", f"the event is of another log: {str(said['origin'])[:200]!r}")
        authorization = said["authorization"]
        by = from_reference(authorization["publicKeyRef"])
        allowed = set()
        if life.revoked is None and (revoking or life.replaced is None):
            allowed.add(life.key)  # a thief may revoke what he stole; he may not name its successor twice
        active = self._active.get(life.role)
        if revoking and active is not None and active.revoked is None:
            allowed.add(active.key)
        recovery = self._active.get(RECOVERY)
        if recovery is not None and recovery.revoked is None:
            allowed.add(recovery.key)
        if life.replaced is not None and not revoking:
            allowed.add(life.key)  # so that a second successor is reported as what it is
        unsigned = {name: value for name, value in said.items() if name != "authorization"}
        if by not in allowed or not _verified(by, authorization["signatureBytes"], unsigned):
            raise _Refused("key_not_authorized", "neither the key before nor the recovery key signed the event")

    def _begin(self, life: _Life) -> None:
        self._lives.append(life)
        self._active[life.role] = life


class _Refused(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def _verified(key: PublicKey, text: Any, said: Mapping[str, Any]) -> bool:
    if not isinstance(text, str) or not text.startswith("base64:"):
        return False
    return key.verify(b64decode(text[7:], validate=True), pae(EVENT_TYPE, canonical(dict(said))))


_EARLIER, _LATER, _UNKNOWN = "earlier", "later", "unknown"


def _order(one: Place, other: Place, *, same: bool = False) -> str:
    """Say whether one place is earlier than another, by leaf, else by trusted time; `same`: so is the same leaf."""
    if one.leaf is not None and other.leaf is not None:
        return _EARLIER if one.leaf < other.leaf or (same and one.leaf == other.leaf) else _LATER
    return _by_time(one, other)


def _by_time(one: Place, other: Place) -> str:
    if one.before is not None and other.after is not None and one.before < other.after:
        return _EARLIER
    if one.after is not None and other.before is not None and one.after > other.before:
        return _LATER
    return _UNKNOWN


def _judge_revoked(life: _Life, place: Place) -> Judgement | None:
    """Judge what a revoked key signed; None where the revocation does not touch it."""
    revoked = life.revoked
    assert revoked is not None
    said = f"{life.reason}, at {_at(revoked)}"
    if revoked.leaf is not None and place.leaf is not None and place.leaf > revoked.leaf:
        return Judgement(INVALID, f"the key was revoked ({said}), before this")
    if life.since is not None:
        if place.before is not None and place.before < life.since:
            return None
        if place.after is not None and place.after >= life.since:
            return Judgement(INVALID, f"the key was revoked ({said}) since a time before this")
        return Judgement(
            UNDETERMINED, f"the key was revoked ({said}) since a time; no trusted time says which was first"
        )
    order = _by_time(place, revoked)
    if order == _LATER:
        return Judgement(INVALID, f"the key was revoked ({said}), before this")
    leaves = place.leaf is not None and revoked.leaf is not None
    if order == _EARLIER or (leaves and place.anchored):
        return None
    return Judgement(UNDETERMINED, f"the key was revoked ({said}); no anchor and no trusted time says which was first")


def _at(place: Place) -> str:
    return "a place outside the log" if place.leaf is None else f"leaf {place.leaf}"
