"""What is said of a closed world is what the probes found, and nothing more."""

from __future__ import annotations

import pytest

from tachograph.replay.confinement.account import account, written_outside

GUARD = {"connect": True, "start": True}
HELD = dict.fromkeys(("tcp", "udp", "unix", "abstract", "file", "processes", "io_uring", "vsock"), True)
KERNEL = {"way": "namespaces", "held": HELD, "open": [], "failed": []}


def test_all_held_leaves_nothing_open() -> None:
    said = account(guard=GUARD, kernel=KERNEL, came_out=[])
    assert (said.network, said.filesystem, said.open) == ("namespace", "overlay", [])


@pytest.mark.parametrize("door", ["tcp", "udp", "unix", "abstract"])
def test_a_door_that_opened_or_was_not_tried_is_no_closed_network(door: str) -> None:
    opened = {**KERNEL, "held": {**HELD, door: False}}
    untried = {**KERNEL, "held": {name: held for name, held in HELD.items() if name != door}}
    assert account(guard=GUARD, kernel=opened, came_out=[]).network == "python"
    assert account(guard=GUARD, kernel=untried, came_out=[]).network == "python"
    said = account(guard={}, kernel=KERNEL, came_out=[door])
    assert said.network == "open"
    assert said.open[0] == f"{door}: a probe from inside came out"


def test_a_file_that_changed_outside_is_no_closed_file_system() -> None:
    said = account(guard=GUARD, kernel=KERNEL, came_out=["file"])
    assert (said.network, said.filesystem) == ("namespace", "open")


def test_without_the_kernel_python_alone_holds_and_says_what_it_cannot() -> None:
    kernel = {"way": "none", "held": {}, "open": [], "failed": [("namespaces", "EPERM")]}
    said = account(guard=GUARD, kernel=kernel, came_out=[])
    assert (said.network, said.filesystem) == ("python", "open")
    assert said.open[0] == "namespaces closes no world here: EPERM"
    assert len(said.open) == 3


def test_nothing_at_all_is_open() -> None:
    said = account(guard={}, kernel={}, came_out=[])
    assert (said.network, said.filesystem, said.how) == ("open", "open", "nothing held")
    assert "network" in said.open


def test_no_filter_is_said() -> None:
    kernel = {**KERNEL, "held": {name: held for name, held in HELD.items() if name not in ("io_uring", "vsock")}}
    said = account(guard=GUARD, kernel=kernel, came_out=[])
    assert said.network == "namespace"
    assert said.open == ["attempts of native code lead nowhere, and are not listed: no filter could be set here"]


def test_a_file_outside_that_the_run_did_not_write_is_outside() -> None:
    inside = ("/run/folder", "/tmp")
    paths = ["/run/folder/a", "/tmp/b", "/run/folder2/c", "/etc/d", "/srv/e", "/usr/lib/__pycache__/f.pyc"]
    assert written_outside(paths, inside, {"/srv/e"}) == ["/run/folder2/c", "/etc/d"]
