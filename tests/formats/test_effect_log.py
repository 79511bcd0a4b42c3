"""A log is read as the effects, draws and facts that were written; nothing is guessed, and damage is a FormatError."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import (
    EffectLog,
    effects_of,
    read_effect_log,
    read_for_playback,
    read_without_content,
)
from tachograph.model.effect import CHUNK, END, EXTERNAL, HEAD, HTTP, RETRIEVAL, SUBPROCESS, TOOL

HEADERS = [(b"Content-Type", b"application/json"), (b"X-Two", b"1"), (b"x-two", b"2")]


class Writing:
    """Writes the frames of a run one after another, a nanosecond apart."""

    def __init__(self) -> None:
        self.frames: list[fr.Frame] = []
        self.add(fr.PATH, b"0", path=1)

    def add(
        self,
        kind: int,
        payload: bytes = b"",
        *,
        flags: int = 0,
        decision: int = 0,
        effect: int = 0,
        path: int = 1,
        parent: int = 0,
        draws: bytes = b"",
    ) -> None:
        at = len(self.frames) + 1
        self.frames.append(fr.Frame(kind, flags, decision, effect, path, parent, at, draws, payload))

    def call(self, effect: int, *, body: bytes | None = b"{}", tags: bytes = b"", parent: int = 0) -> None:
        meta = fr.fields(b"httpx", b"POST", b"http://a/v1?x=1", fr.pack_headers(HEADERS), tags)
        self.add(fr.CALL, meta + (body or b""), flags=int(body is None), effect=effect, parent=parent, decision=3)

    def head(self, effect: int, status: int = 200) -> None:
        packed = fr.fields(b"%d" % status, b"HTTP/1.1", b"OK", fr.pack_headers(HEADERS), b"")
        self.add(fr.HEAD, packed, effect=effect)

    def end(self, effect: int, how: str = "eof", error: BaseException | None = None) -> None:
        packed = fr.fields(how.encode(), b"" if error is None else values.encode(error))
        self.add(fr.END, packed, effect=effect)

    def read(self) -> EffectLog:
        return read_effect_log([fr.write_log(self.frames)[0]])


def whole() -> Writing:
    """A run with one of everything."""
    run = Writing()
    run.add(fr.ABOUT, values.encode({"format": 1, "number": 0}), path=0)
    run.add(fr.SITE, fr.fields(b"time.time", b"a/b.py", b"main", b"x = time()"), effect=1, path=0)
    run.add(fr.PROCESS, values.encode({"pid": 1}))
    run.call(1, tags=fr.fields(b"authorization", b"t" * 16))
    run.head(1)
    run.add(fr.CHUNK, b"one", effect=1, draws=fr.pack_draw(1, 1, 0.25))
    run.add(fr.STREAM, b"out", flags=1)
    run.add(fr.CHUNK, b"two", effect=1)
    run.end(1)
    run.add(fr.SPAWN, values.encode({"args": ["uname", "-p"]}), effect=2)
    run.add(fr.CHUNK, b"x86\n", effect=2, flags=1)
    run.add(fr.CHUNK, b"warning", effect=2, flags=2)
    run.add(fr.EXITED, fr.fields(b"-9"), effect=2)
    run.add(fr.ENTER, fr.fields(b"tool", b"refund", values.encode({"determinism": "unknown"}), b"inputs"), effect=3)
    run.add(fr.LEAVE, fr.fields(b"returned", b"", values.encode(7)), effect=3)
    run.add(fr.STREAM, b"put", flags=1)
    run.add(fr.NOTE, values.encode({"what": "socket.connect", "detail": "1.2.3.4:5"}))
    run.add(fr.ENDED)
    return run


def test_a_call_is_read_with_its_request_and_its_answer() -> None:
    effect = whole().read().effects[0]
    assert (effect.kind, effect.index, effect.path, effect.decision) == (HTTP, 1, "0", 3)
    assert (effect.library, effect.method, effect.url) == ("httpx", "POST", "http://a/v1?x=1")
    assert effect.summary == "POST http://a/v1?x=1"
    assert effect.headers == HEADERS, "order, case and repeats kept"
    assert effect.tags == [("authorization", b"t" * 16)]
    assert (effect.body, effect.body_complete) == (b"{}", True)
    assert (effect.status, effect.version, effect.reason) == (200, b"HTTP/1.1", b"OK")
    assert effect.response_headers == HEADERS
    assert [arrival.kind for arrival in effect.arrivals] == [HEAD, CHUNK, CHUNK, END]
    assert (effect.chunks, effect.answer, effect.ended) == ([b"one", b"two"], b"onetwo", "eof")


def test_a_started_program_is_read_with_both_streams_and_its_end() -> None:
    effect = whole().read().effects[1]
    assert (effect.kind, effect.summary) == (SUBPROCESS, "uname -p")
    assert (effect.output(1), effect.output(2)) == (b"x86\n", b"warning")
    assert (effect.ended, effect.exit_status) == ("exited", -9)


@pytest.mark.parametrize("kind", [TOOL, RETRIEVAL, EXTERNAL])
def test_a_declared_effect_is_read_with_its_inputs_and_its_outcome(kind: str) -> None:
    run = Writing()
    run.add(fr.ENTER, fr.fields(kind.encode(), b"name", values.encode({"a": 1}), b"inputs"), effect=1)
    run.call(2, parent=1)
    run.add(fr.LEAVE, fr.fields(b"error", values.encode(ValueError("no")), b""), effect=1)
    outer, inner = run.read().effects
    assert (outer.kind, outer.name, outer.spec, outer.inputs) == (kind, "name", {"a": 1}, b"inputs")
    assert (outer.ended, repr(values.decode(outer.error)), outer.value) == ("error", "ValueError('no')", b"")
    assert (inner.parent, outer.parent) == (1, 0)


def test_draws_facts_and_streams_are_read_in_their_order() -> None:
    log = whole().read()
    assert [(draw.site, draw.path, draw.value) for draw in log.draws] == [
        (("time.time", "a/b.py", "main", "x = time()"), "0", 0.25)
    ]
    assert [fact.kind for fact in log.facts] == [fr.PROCESS, fr.NOTE, fr.ENDED]
    assert log.first(fr.NOTE) == {"what": "socket.connect", "detail": "1.2.3.4:5"}
    assert log.first(fr.RUN) == {}
    assert log.streams == {0: b"", 1: b"output", 2: b""}
    assert log.about == [{"format": 1, "number": 0}]


def test_an_effect_without_an_end_is_open_at_end() -> None:
    run = Writing()
    run.call(1)
    run.head(1)
    (effect,) = run.read().effects
    assert (effect.ended, effect.arrivals[-1].kind) == ("open_at_end", HEAD)


def test_an_upload_without_its_last_part_is_not_complete() -> None:
    run = Writing()
    run.call(1, body=None)
    run.add(fr.BODY, b"first ", effect=1)
    assert (run.read().effects[0].body, run.read().effects[0].body_complete) == (b"first ", False)
    run.add(fr.BODY, b"second", effect=1)
    run.add(fr.SENT, effect=1)
    assert (run.read().effects[0].body, run.read().effects[0].body_complete) == (b"first second", True)


@given(st.lists(st.integers(0, 2), min_size=18, max_size=18))
def test_the_logs_of_a_run_merge_by_time_alone(which: list[int]) -> None:
    run = whole()
    parts: list[list[fr.Frame]] = [[], [], []]
    for frame, part in zip(run.frames, [0, 0, 0, *which], strict=False):
        parts[part].append(frame)
    merged = read_effect_log([fr.write_log(part)[0] for part in parts])
    assert [arrival.at_ns for effect in merged.effects for arrival in effect.arrivals] == [
        arrival.at_ns for effect in run.read().effects for arrival in effect.arrivals
    ]
    assert merged.streams == run.read().streams


def test_an_answer_to_a_call_that_never_started_is_a_format_error() -> None:
    run = Writing()
    run.head(1)
    with pytest.raises(FormatError, match="effect 1, which never started"):
        run.read()


def test_a_fact_that_is_no_mapping_is_a_format_error() -> None:
    run = Writing()
    run.add(fr.NOTE, values.encode([1]))
    with pytest.raises(FormatError, match="a note frame"):
        run.read().first(fr.NOTE)


@given(st.data())
def test_a_flipped_bit_anywhere_never_ends_in_another_error(data: st.DataObject) -> None:
    log, _ = fr.write_log(whole().frames)
    at, bit = data.draw(st.integers(0, len(log) - 1)), data.draw(st.integers(0, 7))
    damaged = log[:at] + bytes([log[at] ^ 1 << bit]) + log[at + 1 :]
    for read in (
        lambda: read_effect_log([damaged]),
        lambda: read_for_playback(memoryview(damaged), lambda count: None),
        lambda: read_without_content([damaged]),
    ):
        with contextlib.suppress(FormatError):
            read()


@given(st.integers(min_value=0))
def test_a_log_cut_anywhere_never_ends_in_another_error(end: int) -> None:
    log, _ = fr.write_log(whole().frames)
    try:
        read_effect_log([log[: end % len(log)]])
    except FormatError:
        return


@given(st.sampled_from(sorted(fr.NAMES)), st.binary(max_size=40), st.integers(0, 255))
def test_a_frame_that_is_not_what_its_kind_says_is_a_format_error(kind: int, payload: bytes, flags: int) -> None:
    run = whole()
    try:
        effects_of([*run.frames, fr.Frame(kind, flags, 0, 1, 1, 0, 99, b"", payload)])
    except FormatError:
        return


def large(pieces: int) -> Writing:
    """A call whose body comes in large pieces, and a large answer."""
    run = Writing()
    run.call(1, body=None)
    for piece in range(pieces):
        run.add(fr.BODY, b"%d" % piece * 9000, effect=1)
    run.add(fr.SENT, effect=1)
    run.head(1)
    run.add(fr.CHUNK, b"answer" * 9000, effect=1)
    run.end(1)
    return run


def test_a_tape_read_for_a_playback_says_the_same_and_copies_no_content() -> None:
    for run in (whole(), large(3)):
        data = fr.write_log(run.frames)[0]
        read, lies = run.read(), read_for_playback(memoryview(data), lambda count: None)
        for one, other in zip(read.effects, lies.effects, strict=True):
            assert (one.index, one.body, one.inputs, one.value) == (other.index, other.body, other.inputs, other.value)
            assert [arrival.data for arrival in one.arrivals] == [arrival.data for arrival in other.arrivals]
            assert b"".join(other.body_parts) == one.body
        assert (read.streams, len(read.facts)) == (lies.streams, len(lies.facts))
    (effect,) = lies.effects
    held = [part for part in effect.body_parts if len(part) > 4096]
    assert len(held) == 3
    assert all(isinstance(part, memoryview) and part.obj is data for part in held)


def test_whoever_reads_a_tape_is_told_how_far_it_went() -> None:
    data = fr.write_log(large(3).frames)[0]
    counts: list[int] = []
    read_for_playback(memoryview(data), counts.append)
    assert sum(counts) > 1.9 * len(data), "once to find the frames, once to read them"


def test_without_content_a_run_says_all_but_what_was_sent_and_answered() -> None:
    for run in (whole(), large(3)):
        data = fr.write_log(run.frames)[0]
        read, bare = run.read(), read_without_content(iter([data]))
        for one, other in zip(read.effects, bare.effects, strict=True):
            assert (one.index, one.url, one.headers, one.ended) == (other.index, other.url, other.headers, other.ended)
            assert [arrival.at_ns for arrival in one.arrivals] == [arrival.at_ns for arrival in other.arrivals]
            assert (other.body, other.answer, other.inputs, other.value) == (b"", b"", b"", b"")
        assert read.streams == bare.streams
        assert [fact.payload for fact in read.facts] == [fact.payload for fact in bare.facts]
