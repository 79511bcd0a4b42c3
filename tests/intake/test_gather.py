"""The spool files of a run become one order and one numbering, and a lost record takes only its own with it."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import EffectLog, effects_of
from tachograph.intake.gather import gather
from tachograph.intake.logs import split
from tachograph.store.spool_reading import Reading
from tests.seams.driver import RUN

SECOND = 1_000_000_000
DECISION = "dec_01ARZ3NDEKTSV4RRFFQ69G5FA"


class Process:
    """Writes the frames of one process with numbers of its own, as a recorder does."""

    def __init__(self, name: str, *, began: int = 5 * SECOND, wall: int = 10**18) -> None:
        self.name = name
        self.frames: list[fr.Frame] = []
        self._began = began
        facts = {"startedAt": wall, "monotonicNs": began, "pid": 1, "path": name}
        self.add(fr.PROCESS, values.encode(facts), at=began)
        self.add(fr.PATH, name.encode(), path=1, at=began)
        self.add(fr.SITE, fr.fields(b"time.time", name.encode(), b"f", b"line"), effect=1, path=0, at=began)

    def add(
        self, kind: int, payload: bytes = b"", *, at: int, effect: int = 0, path: int = 0, parent: int = 0,
        decision: int = 0, draws: Iterable[object] = (), flags: int = 0,
    ) -> None:  # fmt: skip
        packed = b"".join(fr.pack_draw(1, 1, value) for value in draws)
        self.frames.append(fr.Frame(kind, flags, decision, effect, path, parent, at, packed, payload))

    def call(self, effect: int, *, at: int, parent: int = 0, decision: int = 0, draws: Iterable[object] = ()) -> None:
        url = f"http://{self.name}/{effect}".encode()
        meta = fr.fields(b"httpx", b"GET", url, b"\x00\x00", b"")
        self.add(fr.CALL, meta, at=at, effect=effect, path=1, parent=parent, decision=decision, draws=draws)

    def chunk(self, effect: int, *, at: int, decision: int = 0, draws: Iterable[object] = ()) -> None:
        data = f"{self.name}/{effect};".encode()
        self.add(fr.CHUNK, data, at=at, effect=effect, path=1, decision=decision, draws=draws)

    def opens(self, decision: int, letter: str, *, at: int) -> None:
        self.add(
            fr.OPEN, values.encode({"id": DECISION + letter, "agent": self.name}), at=at, decision=decision, path=1
        )

    def reading(self, *, without: Iterable[int] = ()) -> Reading:
        left_out = set(without)
        kept = [frame.written() for number, frame in enumerate(self.frames) if number not in left_out]
        return Reading(b"", kept, [f"record {number} was changed" for number in sorted(left_out)], gap=False)


def read(*readings: Reading) -> EffectLog:
    return effects_of(gather(readings).frames)


# --- one order, one numbering -----------------------------------------------------------------------------------------


def test_effects_of_two_processes_are_numbered_in_the_order_in_which_they_started() -> None:
    one, two = Process("0"), Process("0/p1", began=6 * SECOND)
    one.call(1, at=7 * SECOND)
    two.call(1, at=8 * SECOND)
    one.call(2, at=9 * SECOND)
    two.chunk(1, at=10 * SECOND)
    one.chunk(1, at=11 * SECOND)
    one.chunk(2, at=12 * SECOND)
    log = read(two.reading(), one.reading())
    assert [(effect.index, effect.url, effect.path, effect.answer) for effect in log.effects] == [
        (1, "http://0/1", "0", b"0/1;"), (2, "http://0/p1/1", "0/p1", b"0/p1/1;"), (3, "http://0/2", "0", b"0/2;"),
    ]  # fmt: skip
    assert [effect.at_ns // SECOND for effect in log.effects] == [2, 3, 4], "since the first process began"


def test_frames_of_one_nanosecond_keep_the_order_of_their_files_and_get_times_of_their_own() -> None:
    one, two = Process("0"), Process("1")
    for process in (one, two):
        process.call(1, at=7 * SECOND)
        process.chunk(1, at=7 * SECOND)
        process.chunk(1, at=7 * SECOND)
    gathered = gather([one.reading(), two.reading()])
    times = [frame.at_ns for frame in gathered.frames]
    assert times == sorted(set(times))
    assert [effect.answer for effect in effects_of(gathered.frames).effects] == [b"0/1;0/1;", b"1/1;1/1;"]


def test_paths_and_call_sites_that_say_the_same_are_one() -> None:
    one, two = Process("0"), Process("0")
    for second, process in enumerate((one, two), 7):
        process.call(1, at=second * SECOND, draws=[1.5, "x"])
    gathered = gather([one.reading(), two.reading()])
    assert [frame.kind for frame in gathered.frames].count(fr.PATH) == 1
    assert [frame.kind for frame in gathered.frames].count(fr.SITE) == 1
    log = effects_of(gathered.frames)
    assert [(draw.site[1], draw.path, draw.value) for draw in log.draws] == [
        ("0", "0", 1.5), ("0", "0", "x"), ("0", "0", 1.5), ("0", "0", "x"),
    ]  # fmt: skip


def test_decisions_are_numbered_for_the_run_and_keep_what_is_inside() -> None:
    one, two = Process("0"), Process("1")
    one.opens(1, "A", at=7 * SECOND)
    two.opens(1, "B", at=8 * SECOND)
    one.call(1, at=9 * SECOND, decision=1)
    two.call(1, at=10 * SECOND, decision=1)
    two.call(2, at=11 * SECOND)
    gathered = gather([one.reading(), two.reading()])
    assert gathered.decisions == {1: DECISION + "A", 2: DECISION + "B"}
    assert [effect.decision for effect in effects_of(gathered.frames).effects] == [1, 2, 0]


def test_a_decision_inside_another_names_it_as_its_parent() -> None:
    one = Process("0")
    one.opens(1, "A", at=7 * SECOND)
    one.add(fr.OPEN, values.encode({"id": DECISION + "B"}), at=8 * SECOND, decision=2, path=1, parent=1)
    opened = effects_of(gather([one.reading()]).frames).of(fr.OPEN)
    assert [(fact.decision, fact.parent) for fact in opened] == [(1, 0), (2, 1)]


def test_the_run_began_when_its_first_process_did_whatever_later_clocks_say() -> None:
    one, two = Process("0", began=6 * SECOND, wall=10**18), Process("1", began=7 * SECOND, wall=10**18 - 99 * SECOND)
    assert gather([two.reading(), one.reading()]).began_ns == 10**18


def test_a_run_of_which_nothing_is_there_is_no_error() -> None:
    assert list(gather([]).frames) == []
    gathered = gather([Reading(b"", [], ["all of it"], gap=False)], unreadable=["one more"])
    assert (list(gathered.frames), gathered.damage) == ([], ["all of it", "one more"])
    assert len(gathered.tails) == 1


# --- what was damaged -------------------------------------------------------------------------------------------------


def busy() -> tuple[Process, Process]:
    """Two processes with decisions, nested effects and draws: each frame of them can be lost."""
    one, two = Process("0"), Process("1", began=6 * SECOND)
    one.opens(1, "A", at=10 * SECOND)
    one.call(1, at=11 * SECOND, decision=1, draws=[1])
    two.call(1, at=12 * SECOND)
    one.call(2, at=13 * SECOND, parent=1, decision=1)
    one.chunk(2, at=14 * SECOND, decision=1)
    two.chunk(1, at=15 * SECOND)
    one.chunk(1, at=16 * SECOND, decision=1)
    one.call(3, at=17 * SECOND, draws=[2])
    one.chunk(3, at=18 * SECOND, draws=[3])
    for process in (one, two):
        process.add(fr.ENDED, values.encode({}), at=20 * SECOND)
    return one, two


FRAMES = len(busy()[0].frames)


def answers(log: EffectLog) -> dict[str, bytes]:
    return {effect.url: effect.answer for effect in log.effects}


@settings(max_examples=200)
@given(st.sets(st.integers(0, FRAMES - 1)))
def test_whatever_is_lost_the_rest_loads_and_is_not_taken_for_something_else(lost: set[int]) -> None:
    one, two = busy()
    gathered = gather([one.reading(without=lost), two.reading()])
    log = effects_of(gathered.frames)
    whole = answers(read(one.reading(), two.reading()))
    for url, answer in answers(log).items():
        assert whole[url].startswith(answer), "an answer holds its own chunks and no others"
    assert answers(log)["http://1/1"] == b"1/1;", "the other process is untouched"
    assert [effect.index for effect in log.effects] == list(range(1, len(log.effects) + 1))
    assert len(gathered.damage) >= len(lost)
    draws = {one.frames.index(frame): frame.draws for frame in one.frames if frame.draws}
    assert len(log.draws) == len(draws.keys() - lost), "a draw is lost only with the record that it rode in"
    for each in split(RUN, gathered):
        assert fr.read_log(each.data)


@given(st.integers(0, FRAMES - 1))
def test_one_lost_record_takes_with_it_only_what_cannot_stand_without_it(lost: int) -> None:
    one, two = busy()
    kind, effect = one.frames[lost].kind, one.frames[lost].effect
    gone = set(answers(read(one.reading(), two.reading()))) - set(
        answers(read(one.reading(without=[lost]), two.reading()))
    )
    assert gone == ({f"http://0/{effect}"} if kind == fr.CALL else set())


def test_frames_that_lost_their_path_or_their_call_site_are_kept_and_it_is_said() -> None:
    one, two = busy()
    gathered = gather([one.reading(without=[1, 2]), two.reading()])
    log = effects_of(gathered.frames)
    assert [effect.url for effect in log.effects if effect.path == ""] == ["http://0/1", "http://0/2", "http://0/3"]
    assert [(draw.site, draw.path, draw.value) for draw in log.draws] == [
        (("", "", "", ""), "", value) for value in (1, 2, 3)
    ]
    assert [word for word in gathered.damage if "path" in word]
    assert [word for word in gathered.damage if "call site" in word]


def test_an_effect_that_lost_the_one_around_it_stands_alone_and_it_is_said() -> None:
    one, _ = busy()
    around = next(number for number, frame in enumerate(one.frames) if frame.kind == fr.CALL)
    gathered = gather([one.reading(without=[around])])
    inner = effects_of(gathered.frames).effects[0]
    assert (inner.url, inner.parent) == ("http://0/2", 0)
    assert any("effect 2 stands without the one that it was inside of" in word for word in gathered.damage)


def test_a_frame_that_does_not_parse_is_left_out_and_named() -> None:
    one = Process("0")
    one.call(1, at=7 * SECOND)
    frames = one.reading().frames
    gathered = gather([Reading(b"", [*frames[:3], b"short", *frames[3:]], [], gap=False)])
    assert len(effects_of(gathered.frames).effects) == 1
    assert any("does not parse" in word for word in gathered.damage)


def test_a_process_without_its_last_frame_is_named_with_when_it_was_last_heard() -> None:
    one, two = Process("0"), Process("1", began=6 * SECOND)
    one.call(1, at=9 * SECOND)
    two.add(fr.ENDED, values.encode({}), at=8 * SECOND)
    (tail,) = gather([one.reading(), two.reading()]).tails
    assert "0 (pid 1)" in tail
    assert "4.000 s" in tail


def test_a_decision_that_is_opened_twice_is_one_and_it_is_said() -> None:
    one, two = Process("0"), Process("1")
    for process in (one, two):
        process.opens(1, "A", at=7 * SECOND)
    gathered = gather([one.reading(), two.reading()])
    assert gathered.decisions == {1: DECISION + "A"}
    assert any("opened twice" in word for word in gathered.damage)


def test_a_spool_that_failed_is_named() -> None:
    one = Process("0")
    reading = Reading(b"", one.reading().frames, [], gap=True)
    assert any("a write failed" in word for word in gather([reading]).damage)


@given(st.lists(st.integers(3, 12), max_size=4), st.lists(st.integers(3, 12), max_size=4))
def test_what_was_numbered_at_a_sealing_keeps_its_numbers_whatever_comes_behind(
    first: list[int], second: list[int]
) -> None:
    processes = busy()
    readings = [process.reading() for process in processes]
    counts = [(sorted(first), sorted(second))[which] for which in (0, 1)]
    steps = [
        {0: counts[0][at] if at < len(counts[0]) else 99, 1: counts[1][at] if at < len(counts[1]) else 99}
        for at in range(max(map(len, counts)))
    ]
    for known in range(len(steps)):
        read_then = [
            Reading(b"", reading.frames[: steps[known][place]], [], gap=False) for place, reading in enumerate(readings)
        ]
        then = gather(read_then, epochs=steps[: known + 1]).frames
        now = gather(readings, epochs=steps[: known + 1]).frames
        assert [frame.written() for frame in now][: len(then)] == [frame.written() for frame in then]
