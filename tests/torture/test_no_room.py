"""Row 7: a disk that is full, and a store that cannot be written: the program goes on and notices nothing.

Its stdout, stderr and exit status are those of a plain run; we add one line to stderr. `--require-capture` stops it.
Whatever was kept before the disk was full is there when it has room again, once. The disk is a small one in memory in a
mount namespace of its own (`programs/confined.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
NOT_HERE = 77
OWN_WORDS = "its own last words\n"
TACHO = (sys.executable, "-m", "tachograph")
LS = {"run": [*TACHO, "ls", "--json"]}
ROOM = {"resize": "16m"}


def program(effects: int) -> tuple[str, ...]:
    """A program that makes so many effects, says its own words and ends with status 7."""
    return (sys.executable, str(PROGRAMS / "spending.py"), str(effects))


def recorded(effects: int, *options: str) -> dict[str, Any]:
    """The step that records it."""
    return {"run": [*TACHO, "run", *options, "--", *program(effects)]}


class Ran:
    """What a step's command gave."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.code: int = told["code"]
        self.out: str = told["out"]
        self.err: str = told["err"]

    def json(self) -> Any:
        """The one document on stdout."""
        assert "Traceback" not in self.err, self.err
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"Ran({self.code}, {self.out[-300:]!r}, {self.err[-800:]!r})"


@pytest.fixture
def carry_out(tmp_path: Path) -> Any:
    """Carries out steps in a world of their own; the results of its commands."""
    box, config = tmp_path / "box", tmp_path / "config"
    box.mkdir()
    config.mkdir()
    env = {**os.environ, "XDG_CONFIG_HOME": str(config), "TACHO_STORE": str(box / "store")}

    def steps(*wanted: dict[str, Any]) -> list[Ran]:
        words = (sys.executable, str(PROGRAMS / "confined.py"), str(box), json.dumps(wanted))
        done = subprocess.run(words, env=env, check=False, capture_output=True, text=True, timeout=110)
        if done.returncode == NOT_HERE:
            pytest.skip(f"this kernel gives no mount namespace to this account: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        return [Ran(told) for told in json.loads(done.stdout)]

    return steps


def as_without_us(ran: Ran, effects: int, *, lines: int = 1) -> None:
    """The program did and said what it does and says without us; we added so many lines to stderr."""
    plain = subprocess.run(program(effects), check=False, capture_output=True, text=True, timeout=60)
    assert (ran.code, ran.out) == (plain.returncode, plain.stdout) != (0, "")
    ours = [line for line in ran.err.splitlines(keepends=True) if line not in OWN_WORDS]
    assert len(ours) == lines, ran
    assert all(line.startswith("tachograph: ") for line in ours)
    assert ran.err.count(OWN_WORDS) == 1


def end_known(answer: dict[str, Any], status: int) -> None:
    """The capture has the exit status, or says that its end is missing: there was no room for that frame either."""
    if answer["decision"]["exitCode"] is None:
        assert any("tacho run" in word for word in answer["coverage"]["tails"])
    else:
        assert answer["decision"]["exitCode"] == status


def test_where_no_store_can_be_made_the_program_goes_on(carry_out: Any) -> None:
    (ran, required) = carry_out({"tmpfs": "4k"}, recorded(3), recorded(3, "--require-capture"))
    as_without_us(ran, 3)
    assert (required.code, required.out) == (3, "")  # it was not started
    assert "No space left" in required.err


def test_a_disk_that_fills_up_while_recording_stops_the_recording_alone(carry_out: Any) -> None:
    ran, full, _, listed, shown = carry_out(
        {"tmpfs": "256k"}, recorded(60), LS, ROOM, LS, LS, {"run": [*TACHO, "show", "last", "--json"]}
    )
    as_without_us(ran, 60)
    assert full.json() == []
    assert "not taken in" in full.err
    assert len(listed.json()) == 1
    answer = shown.json()
    assert answer["decision"]["captureLevel"] == "damaged"
    assert any("recording stopped before the program did" in word for word in answer["damage"])
    end_known(answer, 7)
    kept = [one for one in answer["timeline"] if one["ended"] == "returned"]
    assert 10 < len(kept) < 60
    assert [one["summary"] for one in kept] == [f"external stock-{number}" for number in range(len(kept))]


def test_several_processes_on_a_full_disk_say_one_line(carry_out: Any) -> None:
    (ran,) = carry_out({"tmpfs": "256k"}, {"run": [*TACHO, "run", "--", *program(60), "fork"]})
    assert ran.out.count("\n") == 120
    assert (ran.err.count(OWN_WORDS), ran.err.count("tachograph: ")) == (1, 1)


def test_a_disk_that_fills_up_stops_a_program_whose_capture_is_required(carry_out: Any) -> None:
    ran, _, listed = carry_out({"tmpfs": "256k"}, recorded(60, "--require-capture"), ROOM, LS, LS)
    assert ran.code == 3
    assert OWN_WORDS not in ran.err
    assert "capture is required" in ran.err
    (row,) = listed.json()
    assert row["exitCode"] in (3, None)
    assert row["captureLevel"] == "damaged"


def test_a_disk_that_its_output_fills_stops_a_program_whose_capture_is_required(carry_out: Any) -> None:
    """No recorder runs in a program that is no Python: what it writes is kept by `tacho run` alone."""
    shell = ["sh", "-c", "yes 'a line of it' | head -c 400000; echo end; exec sleep 20"]
    ran, goes_on = carry_out(
        {"tmpfs": "256k"},
        {"run": [*TACHO, "run", "--require-capture", "--", *shell]},
        {"run": [*TACHO, "run", "--", *shell[:2], shell[2].replace("exec sleep 20", "exit 5")]},
    )
    assert ran.code == 3
    assert "capture is required" in ran.err
    assert (goes_on.code, len(goes_on.out)) == (5, 400004)
    assert goes_on.err.count("\n") == 1


@pytest.mark.parametrize("kilobytes", [96, 200])
def test_a_disk_that_fills_up_while_sealing_loses_nothing(carry_out: Any, kilobytes: int) -> None:
    """Before the journal and behind it; at each page in the torture."""
    _fills_up_while_sealing(carry_out, kilobytes)


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(8))
def test_a_disk_that_fills_up_at_any_page_of_sealing_loses_nothing(carry_out: Any, first: int) -> None:
    for pages in range(20 + first, 68, 8):
        _fills_up_while_sealing(carry_out, 4 * pages)


def _fills_up_while_sealing(carry_out: Any, kilobytes: int) -> None:
    print(f"{kilobytes} KiB", flush=True)
    ran, full, _, listed, shown = carry_out(
        {"tmpfs": f"{kilobytes}k"}, recorded(4), LS, ROOM, LS, LS, {"run": [*TACHO, "show", "last", "--json"]}
    )
    as_without_us(ran, 4, lines=ran.err.count("tachograph: "))
    assert ran.err.count("tachograph: ") <= 1
    assert full.code == 0
    assert len(full.json()) <= 1
    assert len(listed.json()) == 1  # and not two
    answer = shown.json()
    if not answer["damage"]:
        assert [one["ended"] for one in answer["timeline"]] == ["returned"] * 4
        assert answer["decision"]["exitCode"] == 7


def test_a_store_that_cannot_be_written_is_read_all_the_same_and_the_program_goes_on(carry_out: Any) -> None:
    first, ran, required, listed, replayed, doctor = carry_out(
        {"tmpfs": "16m"},
        recorded(3),
        {"read_only": True},
        recorded(3),
        recorded(3, "--require-capture"),
        LS,
        {"run": [*TACHO, "replay", "last", "--json"]},
        {"run": [*TACHO, "doctor", "--json"]},
    )
    as_without_us(first, 3, lines=0)
    as_without_us(ran, 3)
    assert (required.code, required.out) == (3, "")
    assert len(listed.json()) == 1
    assert (replayed.json()["equivalent"], replayed.code) == (True, 0)
    assert doctor.code == 0


def test_what_waits_in_a_store_that_cannot_be_written_waits(carry_out: Any) -> None:
    left = {"run": ["sh", "-c", f"{' '.join([*TACHO, 'run', '--', *program(40)])} > /dev/null & sleep 0.1; kill -9 $!"]}
    _, listed = carry_out({"tmpfs": "16m"}, recorded(1), left, {"read_only": True}, LS)[1:]
    assert (listed.code, len(listed.json())) == (0, 1)


def test_where_the_keys_are_gone_the_program_goes_on(tmp_path: Path) -> None:
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "TACHO_STORE": str(tmp_path / "store")}
    words = (*TACHO, "run", "--", *program(2))
    subprocess.run(words, env=env, check=False, capture_output=True, timeout=60)
    (tmp_path / "config").rename(tmp_path / "away")
    done = subprocess.run(words, env=env, check=False, capture_output=True, text=True, timeout=60)
    as_without_us(Ran({"code": done.returncode, "out": done.stdout, "err": done.stderr}), 2)
    required = subprocess.run(
        (*TACHO, "run", "--require-capture", "--", *program(2)), env=env, check=False, capture_output=True, timeout=60
    )
    assert (required.returncode, required.stdout) == (3, b"")
