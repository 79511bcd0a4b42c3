"""Draws: each value of clock or chance is recorded once, where the program asked for it, and comes back in a replay."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.seams.draws import KINDS
from tests.seams.driver import Recorded, Session

# One line for each source, by the kind under which it is kept.
SOURCES = {
    "time.time": "time.time()",
    "time.time_ns": "time.time_ns()",
    "datetime.now": "str(datetime.datetime.now())",
    "datetime.utcnow": "str(datetime.datetime.utcnow())",
    "datetime.today": "str(datetime.datetime.today())",
    "date.today": "str(datetime.date.today())",
    "time.localtime": "list(time.localtime())",
    "time.gmtime": "list(time.gmtime())",
    "time.strftime": "time.strftime('%H:%M:%S')",
    "time.ctime": "time.ctime()",
    "time.asctime": "time.asctime()",
    "uuid.uuid1": "str(uuid.uuid1())",
    "uuid.uuid4": "str(uuid.uuid4())",
    "os.urandom": "os.urandom(9).hex()",
    "os.getrandom": "os.getrandom(9).hex()",
    "random.random": "random.random()",
    "random.getrandbits": "random.getrandbits(70)",
    "time.perf_counter": "time.perf_counter()",
    "time.perf_counter_ns": "time.perf_counter_ns()",
    "time.monotonic": "time.monotonic()",
    "time.monotonic_ns": "time.monotonic_ns()",
    "time.process_time": "time.process_time()",
    "time.process_time_ns": "time.process_time_ns()",
}
IMPORTS = "import datetime, json, os, random, secrets, tempfile, time, uuid\n"


def counted(recorded: Recorded) -> list[tuple[str, str]]:
    """The draws of the program's own file: kind, and the text of the line that drew."""
    own = [draw.site for draw in recorded.log.draws if draw.site[1].endswith("program.py")]
    return [(kind, line) for kind, _, _, line in own]


@pytest.fixture(scope="module")
def each(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A program that draws once from each source, a line each."""
    lines = "".join(f"said[{kind!r}] = {call}\n" for kind, call in SOURCES.items())
    source = f"{IMPORTS}said = {{}}\n{lines}print(json.dumps(said))\n"
    return Session(tmp_path_factory.mktemp("each"), source).record()


def test_each_source_is_recorded_once_where_the_program_drew(each: Recorded) -> None:
    assert each.out
    inherited = {"datetime.today": "date.today"}  # CPython's datetime has no `today` of its own
    assert counted(each) == [(inherited.get(kind, kind), f"said[{kind!r}] = {call}") for kind, call in SOURCES.items()]
    assert {*SOURCES, "random.seed", "socket.bind"} == {*KINDS[1:]}, "a source without a test"  # test_listeners.py


def test_every_draw_comes_back_in_a_replay(each: Recorded) -> None:
    replayed = each.replay()
    assert replayed.out == each.out
    assert replayed.drift == []


def test_two_recordings_differ_in_every_draw(each: Recorded) -> None:
    time.sleep(1.1)  # some of them have a resolution of one second
    one, other = json.loads(each.out), json.loads(each.session.record().out)
    same = {kind for kind in SOURCES if one[kind] == other[kind]}
    assert same <= {"date.today", "time.process_time", "time.process_time_ns"}


# Everything that stands on these sources, and is drawn where the program asked for it.
DERIVED = """
    random.randint(1, 10**9)
    random.choice(range(10**9))
    random.sample(range(1000), 5)
    random.shuffle(list(range(20)))
    random.uniform(0, 1)
    random.gauss(0, 1)
    random.randbytes(8).hex()
    random.Random().random()
    random.SystemRandom().random()
    secrets.token_hex(8)
    secrets.token_urlsafe(8)
    secrets.randbelow(10**9)
    secrets.choice(range(10**9))
    os.path.basename(tempfile.mktemp())
    str(datetime.datetime.now(datetime.timezone.utc))
    datetime.datetime.now(tz=datetime.timezone.utc).timestamp()
    datetime.datetime.now().astimezone().isoformat()
    time.strftime("%Y", time.localtime())
    time.localtime().tm_zone
    time.localtime().tm_gmtoff
    str(uuid.uuid4().hex)
    bytes(os.urandom(0)).hex()
"""


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    lines = "".join(f"said.append({line.strip()})\n" for line in DERIVED.strip().splitlines())
    source = f"{IMPORTS}said = []\n{lines}print(json.dumps(said))\n"
    return Session(tmp_path_factory.mktemp("derived"), source).record()


def test_what_stands_on_these_sources_comes_back_too(derived: Recorded) -> None:
    replayed = derived.replay()
    assert replayed.out == derived.out
    assert replayed.drift == []


def test_a_draw_inside_the_library_counts_where_the_program_asked(derived: Recorded) -> None:
    sites = {line for _, line in counted(derived)}
    assert {line for line in sites if "secrets.token_hex" in line or "randint" in line or "mktemp" in line} == {
        "said.append(random.randint(1, 10**9))",
        "said.append(secrets.token_hex(8))",
        "said.append(os.path.basename(tempfile.mktemp()))",
    }
    assert all(draw.site[1].endswith("program.py") for draw in derived.log.draws)


def test_only_the_outermost_of_nested_draws_counts(tmp_path: Path) -> None:
    recorded = Session(tmp_path, "import uuid, secrets\nuuid.uuid4()\nuuid.uuid1()\nsecrets.token_bytes(4)\n").record()
    assert [kind for kind, line in counted(recorded) if line == "uuid.uuid4()"] == ["uuid.uuid4"]
    assert [kind for kind, line in counted(recorded) if line == "uuid.uuid1()"] == ["uuid.uuid1"]
    assert [kind for kind, line in counted(recorded) if "secrets" in line and "import" not in line] == ["os.urandom"]


def test_calls_from_the_standard_library_pass_through(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import asyncio, email.utils, logging, queue, threading, time
        logging.basicConfig(format="%(asctime)s %(message)s"); logging.warning("a record with its time")
        email.utils.formatdate(); email.utils.make_msgid()
        threading.Event().wait(0.001)
        asyncio.run(asyncio.sleep(0.001))
        try: queue.Queue().get(timeout=0.001)
        except queue.Empty: pass
        time.time()
    """).record()  # fmt: skip
    assert recorded.out == ""
    assert counted(recorded) == [("time.time", "time.time()")]


def test_counters_count_only_in_the_programs_own_files(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "installed"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import time\ndef draw():\n    return time.monotonic(), time.time()\n")
    recorded = Session(tmp_path, """
        import sys, time
        sys.path.insert(0, "site-packages")
        import installed
        print(installed.draw()[1], time.monotonic())
    """).record()  # fmt: skip
    kinds = [draw.site[0] for draw in recorded.log.draws]
    assert kinds == ["time.time", "time.monotonic"]
    assert recorded.replay().out == recorded.out


def test_calls_with_an_argument_are_no_draws(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import time, datetime, random
        print(time.localtime(0).tm_year, time.gmtime(0).tm_year)
        print(time.strftime("%Y", time.gmtime(0)), time.ctime(0)[-4:])
        print(time.asctime(time.gmtime(0)), datetime.datetime.fromtimestamp(0, datetime.timezone.utc))
        random.seed(7)
        print(random.Random(3).random(), random.Random("x").randint(1, 9))
    """).record()  # fmt: skip
    assert counted(recorded) == []
    assert recorded.out == recorded.session.plain().out


def test_names_that_were_imported_are_reached(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        from time import time, time_ns as nanoseconds, localtime
        from uuid import uuid4
        from os import urandom
        from random import random, choice, randint
        from datetime import datetime, date
        from secrets import token_hex
        now = datetime.now
        print(time(), nanoseconds(), tuple(localtime()), uuid4(), urandom(3), random(), choice("abcdef"))
        print(randint(0, 99999))
        print(now(), datetime.utcnow(), date.today(), token_hex(4))
    """).record()  # fmt: skip
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.drift == []


def test_modules_that_were_imported_before_we_came_are_watched_too(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import datetime, json, os, random, secrets, sys, time, uuid
        from tachograph.capture.install import start
        start(json.loads(sys.argv[1]))
        [time.time(), uuid.uuid4(), os.urandom(2), datetime.datetime.now(), datetime.date.today(), random.random()]
        [random.choice("ab"), random.Random()]
        [secrets.token_hex(2), random.SystemRandom().random()]
    """).record_itself()  # fmt: skip
    assert recorded.out == ""
    by_line: dict[str, list[str]] = {}
    for kind, line in counted(recorded):
        by_line.setdefault(line[:12], []).append(kind)
    choices = by_line["[random.choi"]  # `choice` draws again for as long as the number is too large
    by_line["[random.choi"] = sorted(set(choices))
    assert choices.count("random.seed") == 1
    assert by_line == {
        "[time.time()": ["time.time", "uuid.uuid4", "os.urandom", "datetime.now", "date.today", "random.random"],
        "[random.choi": ["random.getrandbits", "random.seed"],
        "[secrets.tok": ["os.urandom", "os.urandom"],
    }


def test_an_unseeded_generator_comes_back_and_a_seeded_one_is_left_alone(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import random
        one = random.Random()
        print([one.random() for _ in range(5)], one.getstate()[1][:3], one.gauss(0, 1), one.sample(range(100), 4))
        random.seed()
        print(random.random(), random.gauss(0, 1), random.expovariate(1))
        random.seed(5)
        print(random.random(), random.randint(1, 6))
        class Own(random.Random):
            def random(self): return 0.25
            def getstate(self): raise NotImplementedError
        Own()
        print(Own(3).uniform(0, 4), random.SystemRandom().getrandbits(64))
    """).record()  # fmt: skip
    assert recorded.replay().out == recorded.out
    assert recorded.out.splitlines()[2:] != []
    assert recorded.out.splitlines()[2] == recorded.session.plain().out.splitlines()[2], (
        "a seed gives what it gave before"
    )


IDENTITY = """
    import copy, datetime, inspect, json, os, pickle, random, time, uuid
    now = datetime.datetime.now()
    class Own(datetime.datetime):
        pass
    print(type(now) is datetime.datetime, isinstance(now, datetime.date))
    print(type(Own.now()) is Own, type(Own.today()) is Own)
    print(pickle.loads(pickle.dumps(now)) == now, copy.deepcopy(now) == now, datetime.datetime.__module__)
    print(type(datetime.datetime.now(datetime.timezone.utc).tzinfo).__name__, datetime.date.today() == now.date())
    print(type(time.time()), type(time.time_ns()), type(time.localtime()), len(time.localtime()))
    print(type(uuid.uuid4()), uuid.uuid4().version, uuid.uuid1().version, type(os.urandom(1)), len(os.urandom(16)))
    print(abs(time.time() - datetime.datetime.now().timestamp()) < 60, time.time.__name__, uuid.uuid4.__name__)
    print(time.get_clock_info("time").implementation, random.random.__name__, callable(datetime.datetime.now))
    for call in (lambda: os.urandom(-1), lambda: os.urandom("x"), lambda: datetime.datetime.now("UTC"),
                 lambda: time.time(1), lambda: time.strftime(), lambda: time.localtime("x"),
                 lambda: random.randint(2, 1)):
        try:
            print("no error", call())
        except Exception as fault:
            print(type(fault).__name__)
"""


def test_what_the_program_sees_of_clocks_and_chance_is_what_it_would_see_without_us(tmp_path: Path) -> None:
    session = Session(tmp_path, IDENTITY)
    without = session.plain()
    assert without.status == 0, without.err
    recorded = session.record()
    assert recorded.out == without.out
    assert recorded.replay().out == without.out


def test_a_datetime_with_a_zone_and_a_fold_comes_back_equal(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import datetime, zoneinfo
        class Folded(datetime.tzinfo):
            def utcoffset(self, when): return datetime.timedelta(hours=2)
            def dst(self, when): return None
            def tzname(self, when): return "F"
            def fromutc(self, when): return when.replace(fold=1)
        for zone in (datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=-3.5)), Folded(), None):
            now = datetime.datetime.now(tz=zone)
            print(repr(now.replace(tzinfo=None)), now.fold, now.utcoffset(), now.tzinfo is zone)
    """).record()  # fmt: skip
    assert recorded.replay().out == recorded.out


def test_an_added_draw_is_drift_and_leaves_all_others_as_they_were(tmp_path: Path) -> None:
    source = """
        import time, uuid
        def step(number):
            print(number, time.time(), uuid.uuid4())
        for number in range(3):
            step(number)
    """
    session = Session(tmp_path, source)
    recorded = session.record()
    session.rewrite(source.replace("step(number)\n    ", "step(number)\n    ").replace(
        "        for number", "        started = time.time()\n        for number"))  # fmt: skip
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    (drift,) = replayed.drift
    assert (drift["what"], drift["count"], drift["path"]) == ("not recorded", 1, "0")
    assert (drift["site"][0], drift["site"][3]) == ("time.time", "started = time.time()")


def test_a_draw_that_is_not_drawn_again_is_drift(tmp_path: Path) -> None:
    source = "import time\nfor number in range(3):\n    time.time()\n"
    session = Session(tmp_path, source)
    recorded = session.record()
    session.rewrite(source.replace("range(3)", "range(1)"))
    (drift,) = recorded.replay().drift
    assert (drift["what"], drift["count"], drift["site"][3]) == ("not drawn again", 2, "time.time()")


def test_an_edit_elsewhere_in_the_file_leaves_a_call_site_the_same(tmp_path: Path) -> None:
    source = "import time\ndef main():\n    return time.time()\nprint(main())\n"
    session = Session(tmp_path, source)
    recorded = session.record()
    session.rewrite(
        "# a comment\nimport time\n\n\nother = 1\n\ndef main():\n    other = 2\n    return time.time()\nprint(main())\n"
    )
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.drift == []


def test_draws_of_one_call_site_are_told_apart_by_their_task_path(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import asyncio, sys, threading, uuid
        async def one(name, wait):
            await asyncio.sleep(wait if len(sys.argv) < 2 else 0.03 - wait)
            said[name] = str(uuid.uuid4())
        async def main():
            await asyncio.gather(*[one(name, wait) for name, wait in (("a", 0.02), ("b", 0.0))])
        said = {}
        asyncio.run(main())
        thread = threading.Thread(target=lambda: said.update(thread=str(uuid.uuid4()))); thread.start(); thread.join()
        print(sorted(said.items()))
    """).record()  # fmt: skip
    assert {draw.path for draw in recorded.log.draws} == {"0/a1/a1", "0/a1/a2", "0/t1"}
    replayed = recorded.replay("in another order")
    assert replayed.out == recorded.out
    assert [drift for drift in replayed.drift if drift["site"][0] != "timer"] == []


def test_code_that_has_no_file_keeps_its_call_sites_too(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        source = "import time\\ndef drawn():\\n    x = 1\\n    return time.time()\\nprint(drawn())"
        exec(compile(source, "<generated>", "exec"))
    """).record()  # fmt: skip
    (draw,) = recorded.log.draws
    assert draw.site == ("time.time", "<generated>", "drawn", "+2")
    assert recorded.replay().out == recorded.out


def test_the_live_programs_entropy_is_never_replaced(tmp_path: Path) -> None:
    """A value is drawn from its own source and then handed over: it lies between two that we cannot reach."""
    recorded = Session(tmp_path, """
        import _datetime, time, os
        clock = time.clock_gettime(time.CLOCK_REALTIME)
        now = time.time()
        print(clock <= now <= time.clock_gettime(time.CLOCK_REALTIME), len({os.urandom(8) for _ in range(100)}))
    """).record()  # fmt: skip
    assert recorded.out == "True 100\n"


def test_draws_of_a_long_silence_are_not_lost_and_ride_in_frames_of_their_own(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path, "import time\nfor _ in range(3000):\n    time.time()\nimport os\nos.kill(os.getpid(), 9)\n"
    ).record()
    assert recorded.ended.status == -9
    assert 2400 <= len(recorded.log.draws) <= 3000
    assert [f.kind for f in recorded.frames].count(fr.DRAWS) >= 4
    assert len({draw.value for draw in recorded.log.draws}) > 1000


def test_draws_while_modules_are_imported_count(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import time, uuid\nSTARTED = time.time()\nID = uuid.uuid4()\n")
    recorded = Session(tmp_path, "import module\nprint(module.STARTED, module.ID)\n").record()
    assert recorded.replay().out == recorded.out


COST = """
import time, timeit
print(min(timeit.repeat("time()", "from time import time", number=20000, repeat=5)) / 20000 * 1e6)
"""


def test_what_a_draw_costs_is_told(tmp_path: Path) -> None:
    """A figure for whoever reads the log of the tests (`-rP`), not a promise: the machine is shared."""
    session = Session(tmp_path, COST)
    without, recorded = float(session.plain().out), float(session.record().out)
    print(f"a draw costs {recorded - without:.2f} us more than the {without:.2f} us of time.time()")
