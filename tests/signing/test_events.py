"""The life of keys: who may replace and revoke them, and what follows for what they signed, before and after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.signing import events
from tachograph.signing.events import COMPROMISED, LOG, RECOVERY, SIGNER, SUPERSEDED, History, Logged, Place
from tachograph.signing.keys import SigningKey

ORIGIN = "tachograph/ab/default/0"
FIRST, SECOND, THIRD, LOG_KEY, SAFE, THIEF = (SigningKey.from_bytes(bytes([n]) * 32) for n in range(1, 7))
BEGUN = [(events.new(SIGNER, FIRST.public), FIRST), (events.new(LOG, LOG_KEY.public), FIRST),
         (events.new(RECOVERY, SAFE.public), FIRST)]  # fmt: skip

Said = tuple[Mapping[str, Any], SigningKey]


def history(*more: Said, begun: list[Said] | None = None, leaf: int = 10, **place: Any) -> History:
    """A history: the three keys at leaves 0 to 2, then events at leaves 10, 20, 30."""
    logged = [Logged(body, by.public, Place(leaf=n)) for n, (body, by) in enumerate(BEGUN if begun is None else begun)]
    logged += [Logged(body, by.public, Place(leaf=leaf * (n + 1), **place)) for n, (body, by) in enumerate(more)]
    return History.of(ORIGIN, logged)


def rotated(by: SigningKey = FIRST, before: SigningKey = FIRST, after: SigningKey = SECOND, **more: Any) -> Said:
    """A rotation in its record."""
    return events.rotate(SIGNER, before=before.public, after=after, by=by, **{"origin": ORIGIN, **more}), by


def revoked(key: SigningKey = FIRST, by: SigningKey = SAFE, **more: Any) -> Said:
    """A revocation in its record."""
    return events.revoke(SIGNER, key.public, by=by, **{"reason": COMPROMISED, "origin": ORIGIN, **more}), by


def state(one: History, key: SigningKey, **place: Any) -> str:
    """What is said of a key's signature at a place."""
    return one.judge(key.public, Place(**place)).state


def reasons(one: History) -> list[str]:
    """Why events were not taken."""
    return [fault.reason for fault in one.faults]


def test_a_log_begins_with_its_keys() -> None:
    one = history()
    assert one.faults == []
    assert [one.active(role) for role in (SIGNER, LOG, RECOVERY)] == [FIRST.public, LOG_KEY.public, SAFE.public]
    assert state(one, FIRST, leaf=0) == state(one, FIRST, leaf=9) == "valid"
    assert state(one, SECOND, leaf=9) == "invalid"
    assert one.judge(LOG_KEY.public, Place(leaf=5)).state == "invalid", "the log's key signs no record"
    assert one.judge(LOG_KEY.public, Place(leaf=5), role=LOG).state == "valid"
    assert one.judge(LOG_KEY.public, Place(leaf=0), role=LOG).state == "invalid", "before it was registered"
    assert state(one, FIRST) == "undetermined"


def test_who_signs_a_registration_matters() -> None:
    assert reasons(history(begun=[(BEGUN[0][0], THIEF)])) == ["key_not_authorized"]
    assert reasons(history(begun=[BEGUN[0], (BEGUN[1][0], THIEF)])) == ["key_not_authorized"]
    assert reasons(history(begun=[BEGUN[1]])) == ["key_not_authorized"]
    again = history((events.new(SIGNER, THIEF.public), FIRST), (events.new(RECOVERY, THIEF.public), FIRST))
    assert reasons(again) == ["key_registered_twice"] * 2
    assert again.active(RECOVERY) == SAFE.public


@pytest.mark.parametrize("by", [FIRST, SAFE])
def test_a_key_is_replaced_by_the_one_before_or_by_recovery(by: SigningKey) -> None:
    one = history(rotated(by))
    assert one.faults == []
    assert one.active(SIGNER) == SECOND.public
    assert one.keys(SIGNER) == [FIRST.public, SECOND.public]
    assert one.line(SECOND.public) == [FIRST.public]
    assert [state(one, FIRST, leaf=n) for n in (9, 10, 11)] == ["valid", "valid", "invalid"]
    assert [state(one, SECOND, leaf=n) for n in (9, 10, 11)] == ["invalid", "valid", "valid"]


def test_three_keys_continue_each_other() -> None:
    one = history(rotated(), rotated(SECOND, SECOND, THIRD))
    assert one.faults == []
    assert one.line(THIRD.public) == [SECOND.public, FIRST.public]
    assert one.line(SECOND.public) == [FIRST.public, THIRD.public]
    assert one.line(FIRST.public) == [SECOND.public, THIRD.public]
    assert one.line(LOG_KEY.public) == one.line(THIEF.public) == []
    assert [state(one, SECOND, leaf=n) for n in (9, 15, 25)] == ["invalid", "valid", "invalid"]


def changed(**change: Any) -> Said:
    """A rotation of which a member was changed after it was signed."""
    return {**rotated()[0], **change}, FIRST


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (rotated(THIEF), "key_not_authorized"), (rotated(LOG_KEY), "key_not_authorized"),
        (rotated(SECOND), "key_not_authorized"), (rotated(origin="tachograph/cd/default/0"), "key_event_origin"),
        (rotated(before=THIEF), "key_unknown"), (rotated(after=LOG_KEY), "key_registered_twice"),
        (rotated(after=FIRST), "key_registered_twice"),
        (changed(possession=rotated(after=THIRD)[0]["possession"]), "key_not_authorized"),
        (changed(replaces=SAFE.public.reference()), "key_unknown"), (changed(more=1), "key_not_authorized"),
        (changed(event="retire"), "key_event_unknown"), (changed(role="other"), "key_event_format"),
        (changed(keyDigest=FIRST.public.key_digest()), "key_event_format"),
        (changed(algorithm="rsa"), "key_event_format"), (changed(authorization="x"), "key_event_format"),
        (changed(publicKeyRef="did:other:x"), "did_unresolved"), (changed(event=["rotate"]), "key_event_format"),
        (revoked(by=THIEF), "key_not_authorized"), (revoked(by=LOG_KEY), "key_not_authorized"),
        (revoked(key=THIEF), "key_unknown"), (revoked(reason="bored"), "key_event_format"),
        (revoked(since=-1), "key_event_format"), (revoked(since=True), "key_event_format"),
        (revoked(origin="x"), "key_event_origin"),
    ],
)  # fmt: skip
def test_an_event_without_right_changes_nothing(event: Said, why: str) -> None:
    one = history(event)
    assert reasons(one) == [why]
    assert one.faults[0].leaf == 10
    assert one.active(SIGNER) == FIRST.public
    assert state(one, FIRST, leaf=99) == "valid"


def test_a_new_key_must_be_possessed() -> None:
    """Somebody else's public key is registered by nobody: with the right to rotate, but without its private half."""
    said = dict(rotated()[0])
    del said["authorization"]
    said["possession"] = events._signature(FIRST, {k: v for k, v in said.items() if k != "possession"})
    forged = {**said, "authorization": events._authorization(FIRST, said)}
    assert reasons(history((forged, FIRST))) == ["key_not_possessed"]


def test_two_successors_are_equivocation_and_the_first_holds() -> None:
    one = history(rotated(), rotated(after=THIRD))
    assert reasons(one) == ["key_rotated_twice"]
    assert "equivocation" in one.faults[0].message
    assert one.active(SIGNER) == SECOND.public


def test_what_a_revoked_key_signed_is_judged_by_leaf_order_in_an_anchored_log() -> None:
    one = history(revoked(reason=SUPERSEDED))
    assert one.faults == []
    assert state(one, FIRST, leaf=9) == "undetermined"
    assert state(one, FIRST, leaf=9, anchored=True) == "valid"
    assert state(one, FIRST, leaf=11) == state(one, FIRST, leaf=11, anchored=True) == "invalid"


def test_or_by_trusted_time() -> None:
    one = history(revoked(), after=5_000, before=6_000)
    assert state(one, FIRST, leaf=9, before=4_000) == "valid"
    assert state(one, FIRST, leaf=9, before=5_500) == "undetermined"
    assert state(one, FIRST, after=6_500) == "invalid"
    assert state(one, FIRST) == "undetermined"


def test_a_compromise_reaches_back_to_its_time_whatever_the_leaves_say() -> None:
    one = history(revoked(since=3_000))
    assert state(one, FIRST, leaf=9, anchored=True) == "undetermined"
    assert state(one, FIRST, leaf=9, before=2_999) == "valid"
    assert state(one, FIRST, leaf=9, before=3_000) == "undetermined"
    assert state(one, FIRST, leaf=9, after=3_000, before=4_000) == "invalid"
    assert state(one, FIRST, leaf=11, before=2_999) == "invalid"


def test_rotation_without_leaves_is_judged_by_time() -> None:
    one = history(rotated(), after=5_000, before=6_000)
    assert state(one, FIRST, before=4_000) == "undetermined", "nothing says that it was registered by then"
    assert state(one, FIRST, after=6_001) == "invalid"
    assert state(one, SECOND, after=6_001) == "valid"
    assert state(one, SECOND, before=4_999) == "invalid"
    assert state(one, SECOND, after=5_500) == "undetermined"


def test_a_time_that_overlaps_a_rotation_decides_nothing() -> None:
    begun = Logged(BEGUN[0][0], FIRST.public, Place(leaf=0, after=1_000, before=2_000))
    body, by = rotated()
    one = History.of(ORIGIN, [begun, Logged(body, by.public, Place(leaf=10, after=5_000, before=6_000))])
    assert state(one, FIRST, after=2_500, before=4_999) == "valid"
    assert state(one, FIRST, after=5_500, before=5_700) == "undetermined"
    assert state(one, FIRST, after=1_500, before=1_700) == "undetermined"


def test_a_revoked_key_names_no_successor_and_recovery_does() -> None:
    assert reasons(history(revoked(), rotated())) == ["key_not_authorized"]
    one = history(revoked(), rotated(SAFE))
    assert one.faults == []
    assert one.active(SIGNER) == SECOND.public
    assert reasons(history(revoked(), revoked())) == ["key_revoked_twice"]
    own = history(revoked(by=FIRST))
    assert own.faults == []
    assert state(own, FIRST, leaf=11) == "invalid"


def test_a_thief_who_was_faster_is_put_out_by_the_recovery_key() -> None:
    taken = rotated(after=THIEF)
    one = history(taken, revoked(THIEF), rotated(SAFE, THIEF, THIRD), revoked(FIRST, since=0))
    assert one.faults == []
    assert one.active(SIGNER) == THIRD.public
    assert state(one, THIEF, leaf=25) == "invalid"
    assert state(one, THIRD, leaf=35) == "valid"


def test_a_replaced_key_revokes_itself_and_no_other() -> None:
    assert history(rotated(), revoked(FIRST, FIRST)).faults == []
    assert history(rotated(), revoked(FIRST, SECOND)).faults == []
    assert reasons(history(rotated(), revoked(SECOND, FIRST))) == ["key_not_authorized"]


def test_a_revoked_recovery_key_recovers_nothing() -> None:
    gone = events.revoke(RECOVERY, SAFE.public, reason=COMPROMISED, by=SAFE, origin=ORIGIN), FIRST
    assert reasons(history(gone, rotated(SAFE))) == ["key_not_authorized"]
    assert reasons(history(gone, revoked())) == ["key_not_authorized"]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)),
       st.sampled_from(sorted(rotated()[0])))  # fmt: skip
def test_nothing_in_an_event_raises(value: Any, member: str) -> None:
    for body in (value, {**rotated()[0], member: value}, {**revoked()[0], member: value}):
        one = History.of(ORIGIN, [Logged(BEGUN[0][0], FIRST.public, Place(leaf=0)), Logged(body, FIRST.public)])
        assert len(one.faults) == 1 or body in (rotated()[0], revoked()[0])


def test_private_bytes_stand_in_no_event() -> None:
    for body, _ in [*BEGUN, rotated(), revoked()]:
        text = json.dumps(body)
        for key in (FIRST, SECOND, SAFE):
            assert key.private_bytes().hex() not in text
            assert repr(key.private_bytes()) not in text
