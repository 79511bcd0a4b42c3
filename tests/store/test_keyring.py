"""The keys of a store lie apart, are read when asked for, and change without a moment when nothing opens the store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tachograph.errors import DamagedStore, KeyMissing
from tachograph.store.keyring import EPOCH, NEXT_EPOCH, Keyring, keys_folder


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    return Keyring.create("ab" * 16, {"XDG_CONFIG_HOME": str(tmp_path)})[0]


def test_the_folder_follows_xdg_and_ignores_a_relative_one() -> None:
    assert keys_folder("id", {"XDG_CONFIG_HOME": "/c"}) == "/c/tachograph/stores/id"
    assert keys_folder("id", {"HOME": "/h"}) == "/h/.config/tachograph/stores/id"
    assert keys_folder("id", {"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == "/h/.config/tachograph/stores/id"


def test_the_public_key_is_that_of_the_private_one(tmp_path: Path) -> None:
    ring, public = Keyring.create("cd" * 16, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert X25519PrivateKey.from_private_bytes(ring.intake).public_key().public_bytes_raw() == public


def test_forgotten_keys_leave_nothing(ring: Keyring) -> None:
    ring.forget()
    assert not os.path.exists(ring.folder)
    with pytest.raises(KeyMissing):
        _ = ring.tag


@pytest.mark.parametrize("data", [b"", b"short", bytes(32), b"x" * 33])
def test_a_key_file_that_is_no_key_is_damage_and_its_bytes_are_not_told(ring: Keyring, data: bytes) -> None:
    Path(ring.path(EPOCH)).write_bytes(data)
    with pytest.raises(DamagedStore) as fault:
        _ = ring.epoch
    assert "epoch.key" in str(fault.value)
    assert "xxx" not in str(fault.value)


def test_a_new_epoch_takes_the_place_of_the_old_key_which_is_overwritten(ring: Keyring, tmp_path: Path) -> None:
    old = ring.epoch
    os.link(ring.path(EPOCH), tmp_path / "the old file")
    new = ring.begin_epoch()
    assert ring.epoch == old
    assert ring.next_epoch() == new
    ring.finish_epoch()
    assert (tmp_path / "the old file").read_bytes() == bytes(32)
    assert ring.epoch == new
    assert ring.next_epoch() is None
    assert old not in [Path(ring.folder, name).read_bytes() for name in os.listdir(ring.folder)]


def test_an_abandoned_epoch_leaves_the_old_key(ring: Keyring) -> None:
    old = ring.epoch
    ring.begin_epoch()
    ring.abandon_epoch()
    assert ring.epoch == old
    assert not os.path.exists(ring.path(NEXT_EPOCH))


def test_a_next_epoch_that_was_being_dropped_is_none(ring: Keyring) -> None:
    Path(ring.path(NEXT_EPOCH)).write_bytes(bytes(32))
    assert ring.next_epoch() is None
