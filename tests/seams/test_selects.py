"""A `select` of the program's own that found nothing in its time finds nothing again, and is not waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.model.effect import SLEEP, Effect
from tests.seams.driver import Recorded, Session

HEAD = """
import os, select, selectors, socket, subprocess, sys, threading, time
def clock(): return time.clock_gettime(time.CLOCK_MONOTONIC)
ours, theirs = socket.socketpair()
began = clock()
"""
TOOK = "\nsys.stderr.write(str(clock() - began))\n"
WAYS = {
    "select": "print(select.select([ours], [], [], 0.8))",
    "selectors": """
selector = selectors.DefaultSelector()
selector.register(ours, selectors.EVENT_READ)
print(selector.select(0.8), selector.select(timeout=0))
theirs.send(b"a")
print(len(selector.select(30)))
""",
    "poll": """
selector = selectors.PollSelector()
selector.register(ours, selectors.EVENT_READ)
print(selector.select(timeout=0.8))
""",
    "by select": """
selector = selectors.SelectSelector()
selector.register(ours, selectors.EVENT_READ)
print(selector.select(0.8))
""",
    "a program's output": """
p = subprocess.Popen(["sh", "-c", "sleep 1; echo late"], stdout=-1)
print(select.select([p.stdout], [], [], 0.8))
print([one is p.stdout for one in select.select([p.stdout], [], [], 30)[0]], p.stdout.readline(), p.wait())
""",
    "a loop that waits for a thread": """
threading.Thread(target=lambda: (time.sleep(1.5), theirs.send(b"x"))).start()
count = 0
while not select.select([ours], [], [], 0.4)[0]: count += 1
print(count, ours.recv(1))
""",
}


def lapses(recorded: Recorded) -> list[Effect]:
    return [effect for effect in recorded.log.effects if effect.kind == SLEEP and effect.nth]


@pytest.mark.parametrize("way", WAYS)
def test_a_select_that_found_nothing_finds_nothing_again(tmp_path: Path, way: str) -> None:
    recorded = Session(tmp_path, HEAD + WAYS[way] + TOOK).record()
    assert recorded.out
    assert {one.name for one in lapses(recorded)} == {"select"}
    assert all(one.seconds > 0 for one in lapses(recorded)), "a look that waits for nothing is none"
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert (replayed.clean, replayed.drift) == (True, [])
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]
    assert float(replayed.ended.err) < float(recorded.ended.err) - 0.25


def test_what_loops_and_libraries_select_for_themselves_is_no_effect(tmp_path: Path) -> None:
    recorded = Session(tmp_path, HEAD + """
import asyncio, socketserver
loop = asyncio.new_event_loop()
loop.call_soon(loop.stop)
loop.run_forever()
server = socketserver.TCPServer(("127.0.0.1", 0), None)
thread = threading.Thread(target=server.serve_forever, args=(0.05,))
thread.start()
until = clock() + 0.2
while clock() < until: pass
server.shutdown(); thread.join()
print(subprocess.Popen(["sleep", "0.2"], stdout=-1, stderr=-1).communicate())
""").record()  # fmt: skip
    assert (recorded.out, lapses(recorded)) == ("(b'', b'')\n", [])


def test_one_that_was_not_recorded_waits_and_is_counted(tmp_path: Path) -> None:
    session = Session(tmp_path, HEAD + "print(1)")
    recorded = session.record()
    session.rewrite(HEAD + "print(select.select([ours], [], [], 0.01))")
    replayed = recorded.replay()
    assert replayed.out == "([], [], [])\n"
    assert [(one["site"][0], one["count"]) for one in replayed.drift] == [("select", 1)]


def test_wrong_time_outs_fail_as_they_would(tmp_path: Path) -> None:
    session = Session(tmp_path, HEAD + """
for wrong in (-1, "x", [], 0):
    try: print(select.select([], [], [], wrong))
    except (ValueError, TypeError) as fault: print(repr(fault))
for wrong in ("x", -1):
    try: print(selectors.DefaultSelector().select(wrong))
    except TypeError as fault: print(repr(fault))
""")  # fmt: skip
    assert session.plain().out == session.record().out


def test_it_is_no_method_of_a_class_that_holds_it(tmp_path: Path) -> None:
    session = Session(tmp_path, HEAD + """
class Holds: look = select.select
print(Holds().look([], [], [], 0.01), select.select.__name__, select.select)
""")  # fmt: skip
    assert session.plain().out == session.record().out
