"""Waits for a started program that ran out of time run out again in a replay, at their turn and without waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.model.effect import SLEEP, Effect
from tests.seams.driver import Recorded, Session

CLOCK = "import time\nbegan = time.clock_gettime(time.CLOCK_MONOTONIC)\n"
TOOK = "\nsys.stderr.write(str(time.clock_gettime(time.CLOCK_MONOTONIC) - began))\n"
HEAD = CLOCK + "import subprocess, sys\nfrom subprocess import PIPE, Popen, TimeoutExpired, run\n"


def lapses(recorded: Recorded) -> list[Effect]:
    return [effect for effect in recorded.log.effects if effect.kind == SLEEP and effect.nth]


WAITS = {
    "wait": """
p = Popen(["sh", "-c", "sleep 1.2; exit 3"])
try: p.wait(0.8)
except TimeoutExpired as fault: print(fault, fault.timeout, fault.output, p.returncode)
print(p.wait())
""",
    "wait then kill": """
p = Popen(["sleep", "60"])
try: p.wait(timeout=0.8)
except TimeoutExpired as fault: print(fault)
p.kill()
print(p.wait(), p.poll())
""",
    "run": """
try: run(["sh", "-c", "echo begun; echo fault >&2; exec sleep 60"], capture_output=True, timeout=0.8)
except TimeoutExpired as fault: print(fault, fault.output, fault.stderr)
""",
    "run text": """
try: run("echo begun; exec sleep 60", shell=True, stdout=PIPE, text=True, timeout=0.8)
except TimeoutExpired as fault: print(fault.output, fault.stderr)
""",
    "call": """
try: subprocess.call(["sleep", "60"], timeout=0.8)
except TimeoutExpired as fault: print(fault)
""",
    "communicate again": """
p = Popen(["sh", "-c", "echo one; sleep 1.2; echo two; echo three >&2"], stdout=PIPE, stderr=PIPE)
try: p.communicate(timeout=0.8)
except TimeoutExpired as fault: print(fault, fault.output, fault.stderr)
print(p.communicate(), p.returncode)
""",
    "communicate thrice": """
talk = "read a; echo $a; sleep 0.6; echo two; sleep 0.6; echo three"
p = Popen(["sh", "-c", talk], stdin=PIPE, stdout=PIPE, stderr=PIPE)
said = b"fed\\n"
for _ in range(9):
    try: print(p.communicate(said, timeout=0.4)); break
    except TimeoutExpired as fault: print(fault.output); said = None
print(p.returncode)
""",
    "streams closed": """
p = Popen(["sh", "-c", "echo one; exec >&-; sleep 1"], stdout=PIPE)
try: p.communicate(timeout=0.5)
except TimeoutExpired as fault: print(fault, fault.output)
print(p.wait())
""",
    "at once": """
p = Popen(["sleep", "0.8"])
try: p.wait(0)
except TimeoutExpired as fault: print(fault)
print(p.wait(timeout=60))
""",
}  # fmt: skip


@pytest.mark.parametrize("way", WAITS)
def test_a_wait_that_ran_out_runs_out_again_with_what_was_read_by_then(tmp_path: Path, way: str) -> None:
    recorded = Session(tmp_path, HEAD + WAITS[way] + TOOK).record()
    assert lapses(recorded)
    assert recorded.out
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert (replayed.clean, replayed.drift) == (True, [])
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]
    assert float(replayed.ended.err) < float(recorded.ended.err) - 0.25


CHILDREN = {
    "wait": """
p = Popen([sys.executable, "-c", "import time; time.sleep(1.2); raise SystemExit(3)"])
try: p.wait(0.8)
except TimeoutExpired: print("not yet")
print(p.wait())
""",
    "run": """
child = "import os, time; os.write(1, b'begun'); time.sleep(60)"
try: run([sys.executable, "-c", child], stdout=PIPE, timeout=0.8)
except TimeoutExpired as fault: print(fault.output)
""",
    "fed, then late": """
child = "import sys, time; print(len(sys.stdin.read()), flush=True); time.sleep(1); print('late')"
p = Popen([sys.executable, "-c", child], stdin=PIPE, stdout=PIPE, stderr=PIPE)
try: p.communicate(b"x" * 300_000, timeout=0.8)
except TimeoutExpired as fault: print(fault.output)
print(p.communicate(), p.returncode)
""",
}


@pytest.mark.parametrize("way", CHILDREN)
def test_a_python_child_that_runs_again_is_waited_for_no_longer_than_it_was(tmp_path: Path, way: str) -> None:
    recorded = Session(tmp_path, HEAD + CHILDREN[way]).record()
    assert len(lapses(recorded)) == 1
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert (replayed.misses, replayed.attempts, replayed.drift) == ([], [], [])
    assert lapses(recorded)[0].index in replayed.served


def test_what_a_child_writes_too_early_is_not_in_the_time_out_s_output(tmp_path: Path) -> None:
    """In the replay the child has nothing to wait for: it writes all before its parent's wait runs out."""
    source = HEAD + """
child = "import os, time\\nos.write(1, b'one')\\nif 'slow' in os.listdir(): time.sleep(1.5)\\nos.write(1, b'two')"
try: run([sys.executable, "-c", child], stdout=PIPE, timeout=0.8)
except TimeoutExpired as fault: print(fault.output)
"""  # fmt: skip
    session = Session(tmp_path, source)
    (tmp_path / "slow").touch()
    recorded = session.record()
    (tmp_path / "slow").unlink()
    assert recorded.out == recorded.replay().out == "b'one'\n"


def test_a_wait_that_did_not_run_out_does_not_in_a_slower_replay(tmp_path: Path) -> None:
    """The child computes for longer than its parent's time-out, as it would on a loaded machine."""
    source = HEAD + """
child = "import os\\nuntil = os.times()[4] + ('slow' in os.listdir())\\nwhile os.times()[4] < until: pass"
print(run([sys.executable, "-c", child], timeout=0.9).returncode)
p = Popen([sys.executable, "-c", child])
print(p.wait(timeout=0.9))
"""  # fmt: skip
    session = Session(tmp_path, source)
    recorded = session.record()
    assert (recorded.out, lapses(recorded)) == ("0\n0\n", [])
    (tmp_path / "slow").touch()
    replayed = recorded.replay()
    assert (replayed.out, replayed.drift) == ("0\n0\n", [])


def test_a_wait_that_was_not_recorded_runs_out_and_is_counted(tmp_path: Path) -> None:
    session = Session(tmp_path, HEAD + "p = Popen(['sleep', '60'])\ntime.sleep(0.1)\np.kill()\nprint(p.wait())\n")
    recorded = session.record()
    session.rewrite(HEAD + """
p = Popen(["sleep", "60"])
try: p.wait(0.01)
except TimeoutExpired as fault: print(fault.timeout)
p.kill()
print(p.wait())
""")  # fmt: skip
    replayed = recorded.replay()
    assert replayed.out == "0.01\n-9\n"
    assert [(one["site"][0], one["count"]) for one in replayed.drift] == [("program", 1)]


POLLS = {
    "until it ends": """
p = Popen(["sh", "-c", "echo one; sleep 0.5; exit 3"], stdout=PIPE)
print(p.poll(), p.stdout.readline())
count = 0
while p.poll() is None:
    count += 1
    time.sleep(0.1)
print(count > 2, p.returncode)
sys.stderr.write(str(count))
""",
    "that never ends here": """
p = Popen(["sh", "-c", "sleep 0.5"])
print(p.poll())
time.sleep(0.1)
print(p.poll())
sys.stderr.write("0")
""",
    "killed": """
p = Popen(["sleep", "60"])
print(p.poll(), p.kill(), p.wait(), p.poll())
sys.stderr.write("0")
""",
    "a child": """
p = Popen([sys.executable, "-c", "import time; time.sleep(0.5); raise SystemExit(4)"])
count = 0
while p.poll() is None:
    count += 1
    time.sleep(0.1)
print(p.returncode)
sys.stderr.write(str(count))
""",
}


@pytest.mark.parametrize("way", POLLS)
def test_a_program_is_found_running_as_often_as_it_was(tmp_path: Path, way: str) -> None:
    recorded = Session(tmp_path, HEAD + POLLS[way]).record()
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.ended.err == recorded.ended.err
    assert (replayed.misses, replayed.attempts, replayed.drift) == ([], [], [])


def test_without_a_time_out_and_without_us_nothing_changes(tmp_path: Path) -> None:
    session = Session(tmp_path, HEAD + """
p = Popen(["true"])
print(p.wait(None), p.wait(5), p.poll(), run(["true"], timeout=5).returncode)
print(run(["cat"], input=b"a", stdout=PIPE).stdout)
try: Popen(["true"]).wait("x")
except TypeError as fault: print(fault)
""")  # fmt: skip
    assert session.plain().out == session.record().out


def test_a_child_has_its_input_before_the_wait_for_it_runs_out(tmp_path: Path) -> None:
    recorded = Session(tmp_path, HEAD + """
import os
child = "import sys; sys.stdin.read(); open('got', 'w').close(); sys.stdout.close(); import time; time.sleep(60)"
p = Popen([sys.executable, "-c", child], stdin=PIPE, stdout=PIPE, stderr=PIPE)
try: p.communicate(b"x" * 300_000, timeout=1)
except TimeoutExpired: print(os.path.exists("got"))
p.kill()
""").record()  # fmt: skip
    (tmp_path / "got").unlink()
    assert recorded.out == recorded.replay().out == "True\n"


def test_a_poll_that_found_the_end_waits_for_it(tmp_path: Path) -> None:
    session = Session(tmp_path, HEAD + """
child = "import os\\nuntil = os.times()[4] + 2 * ('slow' in os.listdir())\\nwhile os.times()[4] < until: pass"
p = Popen([sys.executable, "-c", child])
time.sleep(1.5)
print(p.poll())
""")  # fmt: skip
    recorded = session.record()
    (tmp_path / "slow").touch()
    assert recorded.out == recorded.replay().out == "0\n"
