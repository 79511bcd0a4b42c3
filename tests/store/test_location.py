"""A store is found upwards, comes into being whole, and nothing else is taken for one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tachograph.errors import DamagedStore, KeyMissing, Refused, UsageError
from tachograph.store.disk import Disk
from tachograph.store.location import find_store, open_store
from tests.store.kept import FullDisk, PowerCut, StoppingDisk


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def keys(environ: dict[str, str]) -> list[str]:
    stores = Path(environ["XDG_CONFIG_HOME"]) / "tachograph" / "stores"
    return sorted(os.listdir(stores)) if stores.exists() else []


def test_a_store_is_found_in_a_folder_above(tmp_path: Path, environ: dict[str, str]) -> None:
    open_store(str(tmp_path / ".tachograph"), create=True, environ=environ)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_store(str(deep), environ={}) == str(tmp_path / ".tachograph")


def test_where_there_is_none_the_working_folder_gets_it(tmp_path: Path) -> None:
    (tmp_path / ".tachograph").mkdir()  # an empty folder of that name is no store
    deep = tmp_path / "a"
    deep.mkdir()
    assert find_store(str(deep), environ={}) == str(deep / ".tachograph")


def test_the_option_goes_before_the_variable_and_both_before_the_search(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    open_store(str(tmp_path / ".tachograph"), create=True, environ=environ)
    named = {"TACHO_STORE": "by-variable"}
    assert find_store(str(tmp_path), environ=named) == str(tmp_path / "by-variable")
    assert find_store(str(tmp_path), "/by/option", environ=named) == "/by/option"


def test_a_new_store_is_private_whole_and_out_of_version_control(tmp_path: Path, environ: dict[str, str]) -> None:
    store = open_store(str(tmp_path / "s"), create=True, environ=environ)
    assert sorted(os.listdir(store.path)) == [".gitignore", "journal", "log", "segments", "spool", "store.json"]
    assert (tmp_path / "s" / ".gitignore").read_bytes() == b"*\n"
    for path in (store.path, store.spool, store.segments, store.journal, store.log):
        assert os.stat(path).st_mode & 0o777 == 0o700
    assert open_store(store.path, environ=environ).intake_public_key == store.intake_public_key
    assert os.listdir(tmp_path) != []
    assert store.writable


def test_its_keys_lie_outside_and_are_private(tmp_path: Path, environ: dict[str, str]) -> None:
    store = open_store(str(tmp_path / "s"), create=True, environ=environ)
    ring = store.keyring(environ)
    assert len({ring.epoch, ring.tag, ring.intake}) == 3
    for name in ("epoch.key", "tag.key", "intake.key"):
        assert os.stat(ring.path(name)).st_mode & 0o777 == 0o600
        assert not ring.path(name).startswith(store.path)


def test_of_many_processes_that_create_it_at_once_all_use_one(tmp_path: Path, environ: dict[str, str]) -> None:
    source = (
        "import os, sys; from tachograph.store.location import open_store; sys.stdin.read(1);"
        "print(open_store(sys.argv[1], create=True, environ=dict(os.environ)).store_id)"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", source, str(tmp_path / "s")],
            env={**os.environ, **environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(6)
    ]  # fmt: skip
    ids = {process.communicate("x", timeout=60)[0].strip() for process in started}
    assert all(process.returncode == 0 for process in started)
    assert ids == {open_store(str(tmp_path / "s"), environ=environ).store_id}
    assert keys(environ) == sorted(ids)  # the losers' keys are gone again
    assert sorted(os.listdir(tmp_path)) == ["config", "s"]


def test_a_store_that_appears_while_another_is_being_made_is_the_one(tmp_path: Path, environ: dict[str, str]) -> None:
    class Slower(Disk):
        def replace(self, source: str, target: str) -> None:
            if target == str(tmp_path / "s"):
                first.append(open_store(target, create=True, environ=environ).store_id)
            super().replace(source, target)

    first: list[str] = []
    assert [open_store(str(tmp_path / "s"), create=True, environ=environ, disk=Slower()).store_id] == first
    assert keys(environ) == first
    assert sorted(os.listdir(tmp_path)) == ["config", "s"]


def test_stopped_anywhere_while_creating_it_can_be_created_afterwards(tmp_path: Path, environ: dict[str, str]) -> None:
    for stop in range(1, 40):
        disk = StoppingDisk(stop)
        path = str(tmp_path / f"s{stop}")
        try:
            open_store(path, create=True, environ=environ, disk=disk)
        except PowerCut:
            disk.cut_power()
            store = open_store(path, create=True, environ=environ)
            assert store.keyring(environ).epoch
        else:
            assert stop > 10
            return
    pytest.fail("creating a store never came to its end")


def test_a_full_disk_leaves_no_half_store_and_no_keys(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(Refused, match="No space left"):
        open_store(str(tmp_path / "s"), create=True, environ=environ, disk=FullDisk(100))
    assert os.listdir(tmp_path) == ["config"]
    assert keys(environ) == []


def test_a_place_where_nothing_can_be_created_is_named(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r"cannot create a store there.*--store") as refused:
        open_store(str(tmp_path / "file" / "s"), create=True, environ=environ)
    assert refused.value.reason == "store_not_created"


def test_a_folder_that_holds_something_else_is_no_store(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(UsageError, match=r"is no store: it has no store\.json"):
        open_store(str(tmp_path), create=True, environ=environ)
    assert os.listdir(tmp_path) == ["mine"]


def test_no_store_is_said_with_the_way_to_one(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"there is no store at .*`tacho run`"):
        open_store(str(tmp_path / "s"), environ=environ)


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path, environ: dict[str, str]) -> None:
    store = open_store(str(tmp_path / "s"), create=True, environ=environ)
    description = tmp_path / "s" / "store.json"
    description.write_text(description.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(Refused, match=r"format 2.*upgrade") as refused:
        open_store(store.path, create=True, environ=environ)
    assert refused.value.reason == "newer_format"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "storeId": "zz", "intakePublicKey": ""}']
)
def test_a_description_that_does_not_parse_is_damage(tmp_path: Path, environ: dict[str, str], text: str) -> None:
    open_store(str(tmp_path / "s"), create=True, environ=environ)
    (tmp_path / "s" / "store.json").write_text(text)
    with pytest.raises(DamagedStore, match=r"store\.json"):
        open_store(str(tmp_path / "s"), environ=environ)


def test_a_copy_without_the_keys_says_which_folder_is_missing(tmp_path: Path, environ: dict[str, str]) -> None:
    store = open_store(str(tmp_path / "s"), create=True, environ=environ)
    with pytest.raises(KeyMissing, match=rf"elsewhere/tachograph/stores/{store.store_id}/epoch\.key.*copy the folder"):
        _ = store.keyring({"XDG_CONFIG_HOME": str(tmp_path / "elsewhere")}).epoch


def test_a_recorded_program_that_opens_a_store_loads_nothing_of_the_core_install() -> None:
    source = "import sys, tachograph.store.location; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "orjson", "zstandard", "typer", "rich", "rfc8785", "sqlite3", "json", "typing"} & set(
        loaded
    )
