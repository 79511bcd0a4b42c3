"""What the checks `key` and `identity` say of a signer, as the log's key events tell its life."""

from __future__ import annotations

from pathlib import Path

from tachograph.intake.anchor import Anchor
from tachograph.library.tenantlog import TenantLog
from tachograph.library.verifying import identity_of
from tachograph.signing import events
from tachograph.signing.events import COMPROMISED, LOG, RECOVERY, SIGNER, Logged, Place
from tachograph.signing.identity import Pins
from tachograph.signing.keys import SigningKey
from tachograph.signing.log import TileLog
from tachograph.store.disk import DISK

ORIGIN = "tachograph/ab/default/0"
FIRST, SECOND, LOG_KEY, SAFE, OTHER = (SigningKey.from_bytes(bytes([n]) * 32) for n in range(1, 6))


def life(folder: Path) -> TenantLog:
    """The first key is replaced at leaf 5 and found to be stolen at leaf 8."""
    log = TenantLog(ORIGIN, TileLog(str(folder), disk=DISK))
    said = {
        0: (FIRST, events.new(SIGNER, FIRST.public)),
        1: (FIRST, events.new(LOG, LOG_KEY.public)),
        2: (FIRST, events.new(RECOVERY, SAFE.public)),
        5: (FIRST, events.rotate(SIGNER, before=FIRST.public, after=SECOND, by=FIRST, origin=ORIGIN)),
        8: (SECOND, events.revoke(SIGNER, FIRST.public, reason=COMPROMISED, by=SAFE, origin=ORIGIN)),
        9: (SECOND, events.new(SIGNER, OTHER.public)),
    }
    log.events = [Logged(body, by.public, Place(leaf=leaf)) for leaf, (by, body) in said.items()]
    log.look(Anchor({}))
    return log


def test_a_revoked_key_is_neither_failed_nor_ok_where_no_anchor_decides(tmp_path: Path) -> None:
    log = life(tmp_path)
    assert log.judge(SECOND.public, 6).state == "ok"
    assert log.judge(FIRST.public, 4).state == "not_checked"
    assert log.judge(FIRST.public, 9).state == "failed"
    assert log.judge(OTHER.public, 9).state == "failed"
    log.anchored = 5
    assert log.judge(FIRST.public, 4).state == "ok"
    assert log.judge(FIRST.public, 5).state == "not_checked"


def test_an_event_without_right_is_a_fault_with_its_leaf(tmp_path: Path) -> None:
    assert [fault for fault in life(tmp_path).faults if fault.startswith("leaf")] == [
        "leaf 9: the log has a signer key already; this would put another beside it"
    ]


def test_a_pin_on_one_key_of_a_line_knows_the_others(tmp_path: Path) -> None:
    history = life(tmp_path).history
    for pin, key in ((FIRST, SECOND), (SECOND, FIRST), (FIRST, FIRST)):
        assert identity_of(Pins(frozenset([pin.public])), history, key.public).state == "ok"
    for pin in (LOG_KEY, SAFE, OTHER):
        assert identity_of(Pins(frozenset([pin.public])), history, SECOND.public).state == "not_checked"
