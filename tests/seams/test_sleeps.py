"""Sleeps, waits that run out of time and timers are recorded, and a replay ends them in order without waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.model.effect import SLEEP, Effect
from tests.seams.driver import Recorded, Session

CLOCK = "import time\nbegan = time.clock_gettime(time.CLOCK_MONOTONIC)\n"
TOOK = "\nimport sys; sys.stderr.write(str(time.clock_gettime(time.CLOCK_MONOTONIC) - began))\n"


def sleeps(recorded: Recorded) -> list[Effect]:
    return [effect for effect in recorded.log.effects if effect.kind == SLEEP]


def test_a_program_that_sleeps_does_not_wait_in_a_replay(tmp_path: Path) -> None:
    recorded = Session(tmp_path, CLOCK + "time.sleep(1.5)\nprint('awake')" + TOOK).record()
    replayed = recorded.replay()
    assert recorded.out == replayed.out == "awake\n"
    assert float(recorded.ended.err) >= 1.5
    assert float(replayed.ended.err) < 0.75
    assert (replayed.served, replayed.clean, replayed.drift) == ([1], True, [])
    (slept,) = sleeps(recorded)
    assert (slept.name, slept.seconds, slept.ended, slept.path) == ("time.sleep", 1.5, "returned", "0")
    assert slept.summary.startswith("slept 1.5 s at ")


def test_threads_wake_in_the_recorded_order(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        """
        import threading, time
        woken = []
        def sleeper(name, seconds):
            time.sleep(seconds)
            woken.append(name)
        threads = [threading.Thread(target=sleeper, args=pair) for pair in (("a", 0.3), ("b", 0.1), ("c", 0.2))]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(woken)
        """,
    ).record()
    assert recorded.out == recorded.replay().out == "['b', 'c', 'a']\n"


def test_what_others_do_during_a_sleep_is_done_when_it_ends(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        """
        import subprocess, sys, threading, time
        done = []
        def work():
            done.append(sum(number * number for number in range(300_000)))
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(1.0)
        print(len(done))
        """,
    ).record()
    assert recorded.out == recorded.replay().out == "1\n"


def test_names_bound_early_and_functions_handed_over_are_seen(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        """
        from concurrent.futures import ThreadPoolExecutor
        from time import sleep
        import sched, time
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(sleep, (0.2, 0.1)))
        plan = sched.scheduler()
        plan.enter(0.1, 1, print, ("due",))
        plan.run()
        """,
    ).record()
    assert [effect.path for effect in sleeps(recorded)] == ["0/e1", "0/e2", "0"]
    replayed = recorded.replay()
    assert (replayed.out, replayed.drift) == ("due\n", [])
    assert sorted(replayed.served) == [1, 2, 3]


@pytest.mark.parametrize(
    ("wait", "shown"),
    [
        ("threading.Event().wait(0.3)", "False"),
        ("queue_get(0.3)", "Empty"),
        ("threading.Semaphore(0).acquire(timeout=0.3)", "False"),
        ("result(0.3)", "TimeoutError"),
        ("polls(0.1)", "3"),
        ("joined(0.2)", "True"),
    ],
)
def test_a_time_out_that_expired_expires_again(tmp_path: Path, wait: str, shown: str) -> None:
    source = f"""
        import concurrent.futures, queue, threading, time
        def queue_get(seconds):
            try: return queue.Queue().get(timeout=seconds)
            except queue.Empty: return "Empty"
        def result(seconds):
            try: return concurrent.futures.Future().result(seconds)
            except concurrent.futures.TimeoutError: return "TimeoutError"
        def polls(seconds):
            flag, count = threading.Event(), 0
            threading.Timer(seconds * 3.5, flag.set).start()
            while not flag.wait(seconds): count += 1
            return count
        def joined(seconds):
            thread = threading.Thread(target=time.sleep, args=(seconds * 3,))
            thread.start()
            thread.join(seconds)
            return thread.is_alive()
        print({wait})
        """
    recorded = Session(tmp_path, source).record()
    assert sleeps(recorded)
    replayed = recorded.replay()
    assert recorded.out == replayed.out == f"{shown}\n"
    assert (replayed.clean, replayed.drift) == (True, [])
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]


def test_a_wait_that_was_notified_in_time_leaves_nothing(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        """
        import threading
        flag = threading.Event()
        threading.Thread(target=flag.set).start()
        print(flag.wait(30))
        """,
    ).record()
    assert sleeps(recorded) == []
    assert recorded.out == recorded.replay().out == "True\n"


def test_a_queue_that_runs_out_of_time_waits_once(tmp_path: Path) -> None:
    """`Queue.get` computes what is left of its time-out: a replay that ended the wait early must not begin another."""
    source = CLOCK + "import queue\ntry: queue.Queue().get(timeout=1.5)\nexcept queue.Empty: print('empty')" + TOOK
    replayed = Session(tmp_path, source).record().replay()
    assert replayed.out == "empty\n"
    assert float(replayed.ended.err) < 0.75


def test_another_duration_at_the_recorded_place_is_reported(tmp_path: Path) -> None:
    session = Session(tmp_path, "import time\ntime.sleep(0.1)\n")
    recorded = session.record()
    session.rewrite("import time\ntime.sleep(0.2)\n")
    assert recorded.replay().said(fr.SLEPT) == [(1, {"recorded": 0.1, "replayed": 0.2, "own": True})]


def test_a_sleep_that_was_not_recorded_is_slept_and_counted(tmp_path: Path) -> None:
    session = Session(tmp_path, "import time\nprint('go')\n")
    recorded = session.record()
    session.rewrite("import time\nprint('go')\ntime.sleep(0.01)\n")
    (drift,) = recorded.replay().drift
    assert (drift["site"][0], drift["what"], drift["count"]) == ("time.sleep", "not recorded", 1)


def test_a_sleep_that_a_signal_ended_is_not_completed(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        """
        import signal, time
        def ring(*_): raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            time.sleep(30)
            print("slept")
        except KeyboardInterrupt:
            print("rung")
        """,
    ).record()
    assert [effect.ended for effect in sleeps(recorded)] == ["cut_off"]
    assert recorded.out == recorded.replay().out == "rung\n"


def test_the_standard_library_s_own_waits_are_none(tmp_path: Path) -> None:
    source = "import subprocess\nprint(subprocess.Popen(['sleep', '0.2']).wait(timeout=30))\n"
    recorded = Session(tmp_path, source).record()
    assert sleeps(recorded) == []
    assert recorded.out == recorded.replay().out == "0\n"


def test_wrong_durations_fail_as_they_would(tmp_path: Path) -> None:
    source = """
        import time
        for wrong in (-1, "x"):
            try: time.sleep(wrong)
            except (ValueError, TypeError) as fault: print(repr(fault))
        """
    session = Session(tmp_path, source)
    assert session.plain().out == session.record().out
