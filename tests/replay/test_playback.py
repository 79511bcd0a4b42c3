"""A playback answers exactly what was recorded, once each, and says what it refuses before the program can hide it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import EffectLog
from tachograph.replay.playback import EXACT, MEANING, EffectMissed, Playback
from tachograph.seams import port
from tachograph.testing.scripted import ScriptedServer, json_reply, plain, stream
from tests.formats.test_effect_log import Writing
from tests.seams.driver import Session

URL = "http://a/v1?x=1"
HEADERS = [(b"content-type", b"application/json"), (b"anthropic-version", b"2023-06-01"), (b"x-api-key", b"sk-one")]


class Played:
    """A playback of some calls, and what it reported."""

    def __init__(self, log: EffectLog) -> None:
        self.report: list[tuple[int, int, Any]] = []
        self.playback = Playback(log, report=self._said)

    def _said(self, kind: int, effect: int, payload: bytes) -> None:
        self.report.append((kind, effect, values.decode(payload) if payload else None))

    def said(self, kind: int) -> list[Any]:
        return [said for which, _, said in self.report if which == kind]

    def ask(
        self, body: bytes = b'{"a":1,"b":[2]}', *, method: str = "POST", url: str = URL, headers: port.Headers = HEADERS
    ) -> Any:
        return self.playback.ask("httpx", method, url, headers, body)

    def served(self) -> list[int]:
        return [effect for kind, effect, _ in self.report if kind == fr.SERVED]


def a_call(run: Writing, effect: int, *, path: int = 1, body: bytes = b'{"a":1,"b":[2]}', url: str = URL) -> None:
    meta = fr.fields(b"httpx", b"POST", url.encode(), fr.pack_headers(HEADERS), b"")
    run.add(fr.CALL, meta + body, effect=effect, path=path)


def answered(run: Writing, effect: int, *chunks: bytes, ended: str = "eof", error: BaseException | None = None) -> None:
    run.head(effect)
    for chunk in chunks:
        run.add(fr.CHUNK, chunk, effect=effect)
    run.end(effect, ended, error)


def one_call(ended: str = "eof", error: BaseException | None = None) -> Played:
    run = Writing()
    a_call(run, 1)
    answered(run, 1, b"one", b"two", ended=ended, error=error)
    return Played(run.read())


# --- matching ---------------------------------------------------------------------------------------------------------


def test_the_same_bytes_are_answered_head_chunks_and_end() -> None:
    played = one_call()
    answer = played.ask()
    head = answer.wait()
    assert (head.kind, head.head()[0], head.head()[3]) == (fr.HEAD, 200, b"OK")
    assert [answer.wait().data, answer.wait().data] == [b"one", b"two"]
    end = answer.wait()
    assert (end.kind, end.how) == (fr.END, "eof")
    assert played.report == [(fr.SERVED, 1, {"rung": EXACT, "path": "0", "notes": []})]


def test_what_only_says_who_asks_does_not_decide() -> None:
    played = one_call()
    others = [
        (b"X-API-Key", b"sk-two"),
        (b"user-agent", b"new/2"),
        (b"traceparent", b"00-1"),
        (b"x-stainless-os", b"L"),
    ]
    played.ask(headers=[*HEADERS[1::-1], *others])
    assert played.served() == [1]


def test_the_same_meaning_in_other_bytes_is_served_and_noted() -> None:
    played = one_call()
    played.ask(b'{"b": [2],\n "a": 1}')
    ((_, effect, said),) = played.report
    assert (effect, said["rung"]) == (1, MEANING)
    assert said["notes"] != []


@pytest.mark.parametrize(
    ("changed", "path", "recorded", "replayed"),
    [
        ({"body": b'{"a":1,"b":[3]}'}, "/body/b/0", 2, 3),
        ({"body": b'{"a":1,"b":[2],"c":0}'}, "/body/c", None, 0),
        ({"headers": [*HEADERS[::2], (HEADERS[1][0], b"new")]}, "/headers/anthropic-version", "2023-06-01", "new"),
        ({"headers": [*HEADERS, (b"openai-beta", b"x")]}, "/headers/openai-beta", None, "x"),
        ({"method": "PUT"}, "/method", "POST", "PUT"),
        ({"url": "http://a/v2?x=1"}, "/url/path", "/v1", "/v2"),
        ({"url": "http://a/v1?x=2"}, "/url/query/x", "1", "2"),
        ({"url": "http://b/v1?x=1"}, "/url/host", "a", "b"),
    ],
)  # fmt: skip
def test_another_question_never_gets_the_old_answer_and_is_named_at_its_first_difference(
    changed: dict[str, Any], path: str, recorded: object, replayed: object
) -> None:
    played = one_call()
    with pytest.raises(EffectMissed) as caught:
        played.ask(**changed)
    (miss,) = played.said(fr.MISS)
    assert miss["call"]["kind"] == "http"
    assert miss["nearest"] == 1
    leaf = miss["firstDifference"]
    assert (leaf["path"], leaf["replayed"]) == (path, replayed)
    assert leaf["recorded"] == recorded or recorded is None
    assert path in str(caught.value)
    assert played.served() == []


def test_a_miss_stands_in_the_report_before_it_is_raised_and_no_except_exception_catches_it() -> None:
    played = one_call()
    reported: list[int] = []
    try:
        played.ask(b"{}")
    except BaseException:  # noqa: BLE001 - what a program may do
        reported = [kind for kind, _, _ in played.report]
    assert reported == [fr.MISS]
    assert not issubclass(EffectMissed, Exception)


def test_each_recording_is_answered_once() -> None:
    played = one_call()
    played.ask()
    with pytest.raises(EffectMissed):
        played.ask()
    assert (played.served(), len(played.said(fr.MISS))) == ([1], 1)


def test_after_a_miss_exact_matches_are_still_served() -> None:
    played = one_call()
    with pytest.raises(EffectMissed):
        played.ask(b"{}")
    played.ask()
    assert played.served() == [1]


def test_repeats_go_to_the_same_path_first_then_by_recorded_start() -> None:
    run = Writing()
    run.add(fr.PATH, b"0/a1", path=2)
    for effect, path in ((1, 2), (2, 2), (3, 1), (4, 1)):
        a_call(run, effect, path=path)
        answered(run, effect, b"%d" % effect)
    played = Played(run.read())
    for _ in range(4):
        played.ask()
    assert played.served() == [3, 4, 1, 2], "this thread's path is 0"


def test_of_several_in_the_same_meaning_those_of_this_path_come_first() -> None:
    run = Writing()
    run.add(fr.PATH, b"0/a1", path=2)
    a_call(run, 1, path=2)
    a_call(run, 2)
    played = Played(run.read())
    played.ask(b'{"b":[2],"a":1}')
    assert played.served() == [2]


def test_without_any_recording_a_miss_names_no_nearest() -> None:
    played = Played(Writing().read())
    with pytest.raises(EffectMissed, match="POST http://a/v1"):
        played.ask()
    assert "nearest" not in played.said(fr.MISS)[0]


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", ["eof", "closed_early", "error"])
def test_reading_past_the_recorded_end_is_a_miss(ended: str) -> None:
    played = one_call(ended, ValueError("x") if ended == "error" else None)
    answer = played.ask()
    for _ in range(3 if ended == "closed_early" else 4):
        answer.wait()
    with pytest.raises(EffectMissed):
        answer.wait()
    leaf = played.said(fr.MISS)[0]["firstDifference"]
    assert leaf == {"path": "/answer/end", "recorded": ended, "replayed": "read on"}


@pytest.mark.parametrize("ended", ["cut_off", None])
def test_what_the_program_cut_off_or_left_open_is_never_completed(ended: str | None) -> None:
    run = Writing()
    a_call(run, 1)
    run.head(1)
    if ended:
        run.end(1, ended)
    played = Played(run.read())
    answer = played.ask()
    answer.wait()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(answer.wait_async(), 0.2)

    asyncio.run(main())
    thread = threading.Thread(target=answer.wait, daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    assert played.said(fr.MISS) == []


def test_a_recorded_error_is_raised_anew_with_its_class() -> None:
    played = one_call("error", ConnectionResetError(104, "gone"))
    answer = played.ask()
    for _ in range(3):
        answer.wait()
    end = answer.wait()
    assert end.how == port.ERROR
    fault = end.error()
    assert (type(fault), fault.args) == (ConnectionResetError, (104, "gone"))


def test_an_error_whose_class_is_not_here_is_refused_and_not_replaced_by_another() -> None:
    run = Writing()
    a_call(run, 1)
    unknown = values.encode(ValueError("x")).replace(b"builtins", b"nowhere1").replace(b"ValueError", b"GoneError1")
    run.add(fr.END, fr.fields(b"error", unknown), effect=1)
    run.add(fr.SPAWN, values.encode({"args": ["a"]}), effect=2)
    run.add(fr.END, fr.fields(b"error", unknown), effect=2)
    played = Played(run.read())
    with pytest.raises(EffectMissed):
        played.ask().wait().error()
    with pytest.raises(EffectMissed):
        played.playback.ask_spawn({"args": ["a"]}, "0/p1")
    assert [miss["firstDifference"]["path"] for miss in played.said(fr.MISS)] == ["/output", "/output"]


def test_a_program_that_reads_less_is_reported_and_one_that_reads_all_is_not() -> None:
    played = one_call()
    answer = played.ask()
    answer.wait()
    answer.wait()
    answer.close()
    assert played.said(fr.CHUNK) == [{"read": 1, "recorded": 2}]
    whole = one_call()
    answer = whole.ask()
    for _ in range(4):
        answer.wait()
    answer.close()
    assert whole.said(fr.CHUNK) == []


# --- programs, declared effects, decisions, draws ---------------------------------------------------------------------


def declared(run: Writing, effect: int, name: str, given: Any, value: Any, *, parent: int = 0) -> None:
    run.add(
        fr.ENTER,
        fr.fields(b"tool", name.encode(), values.encode({}), values.encode(given)),
        effect=effect,
        parent=parent,
    )
    run.add(fr.LEAVE, fr.fields(b"returned", b"", values.encode(value)), effect=effect)


def test_a_served_effect_consumes_all_that_was_recorded_inside_it() -> None:
    run = Writing()
    declared(run, 1, "outer", {}, 5)
    declared(run, 2, "inner", {}, 6, parent=1)
    run.call(3, parent=2)
    run.call(4, parent=0)
    played = Played(run.read())
    assert played.playback.ask_enter("tool", "outer", {}, values.encode({})).wait() == 5
    assert sorted(played.served()) == [1, 2, 3]
    inside = [said for kind, effect, said in played.report if kind == fr.SERVED and effect in (2, 3)]
    assert inside == [{"rung": EXACT, "inside": 1}] * 2


def test_declared_effects_are_matched_by_kind_name_and_inputs() -> None:
    run = Writing()
    declared(run, 1, "refund", {"order": 1}, "one")
    declared(run, 2, "refund", {"order": 2}, "two")
    played = Played(run.read())
    assert played.playback.ask_enter("tool", "refund", {}, values.encode({"order": 2})).wait() == "two"
    for kind, name, given in (
        ("tool", "refund", {"order": 3}),
        ("tool", "other", {"order": 1}),
        ("retrieval", "refund", {"order": 1}),
    ):
        with pytest.raises(EffectMissed):
            played.playback.ask_enter(kind, name, {}, values.encode(given))
    first, renamed, other_kind = played.said(fr.MISS)
    assert first["firstDifference"] == {"path": "/inputs/order", "recorded": 1, "replayed": 3}
    assert renamed["nearest"] == 1
    assert "nearest" not in other_kind


def test_a_value_of_which_something_is_lost_is_refused() -> None:
    run = Writing()
    declared(run, 1, "opens", {}, {"file": open})
    declared(run, 2, "opens", {"n": 1}, {"lambda": [lambda: 0]})
    played = Played(run.read())
    with pytest.raises(EffectMissed):
        played.playback.ask_enter("tool", "opens", {}, values.encode({"n": 1})).wait()
    assert played.said(fr.MISS)[0]["firstDifference"]["path"] == "/output"


def test_a_program_is_matched_by_its_arguments_and_plays_what_it_wrote() -> None:
    run = Writing()
    run.add(fr.SPAWN, values.encode({"args": ["uname", "-p"], "cwd": None}), effect=1)
    run.add(fr.CHUNK, b"x86\n", effect=1, flags=1)
    run.add(fr.CHUNK, b"warn", effect=1, flags=2)
    run.add(fr.EXITED, fr.fields(b"3"), effect=1)
    played = Played(run.read())
    with pytest.raises(EffectMissed):
        played.playback.ask_spawn({"args": ["uname", "-a"], "cwd": None}, "0/p1")
    stub = played.playback.ask_spawn({"args": ["uname", "-p"], "cwd": None}, "0/p2")
    assert (stub.stdout, stub.stderr, stub.status, stub.refusal) == (b"x86\n", b"warn", 3, None)
    assert played.said(fr.MISS)[0]["call"] == {"kind": "subprocess", "endpoint": "uname -a"}


def test_the_nth_decision_of_a_path_has_its_recorded_number_and_id() -> None:
    run = Writing()
    for number in (1, 2):
        run.add(fr.OPEN, values.encode({"id": f"dec_{number}", "agent": "a"}), decision=number)
    played = Played(run.read())
    assert [played.playback.open({"agent": "a"}) for _ in range(3)] == [(1, "dec_1"), (2, "dec_2"), (0, None)]


def test_draws_come_back_in_their_order_by_call_site_and_what_is_more_is_drift() -> None:
    code = one_call.__code__
    site = (b"time.time", b"replay/test_playback.py", b"one_call", b"run = Writing()")
    run = Writing()
    run.add(fr.SITE, fr.fields(*site), effect=1, path=0)
    run.add(fr.DRAWS, draws=fr.pack_draw(1, 1, 0.5) + fr.pack_draw(1, 1, 1.5))
    played = Played(run.read())
    at = next(start for start, _, line in code.co_lines() if line == code.co_firstlineno + 1)
    assert [played.playback.redraw(1, code, at) for _ in range(2)] == [0.5, 1.5]
    assert played.playback.redraw(1, code, at) is port.MISSING
    assert played.playback.redraw(2, code, at) is port.MISSING, "another source at the same place"
    played.playback.finish()
    (drift,) = played.said(fr.DRIFT)
    assert sorted((item["site"][0], item["count"], item["what"]) for item in drift) == [
        ("time.time", 1, "not recorded"), ("time.time_ns", 1, "not recorded"),
    ]  # fmt: skip


@pytest.mark.parametrize("installs", [False, True])
def test_a_program_that_installs_itself_has_no_drift_before_it_did(installs: bool) -> None:
    report: list[int] = []
    playback = Playback(Writing().read(), report=lambda kind, effect, payload: report.append(kind), asleep=True)
    if installs:
        playback.installed()
    assert playback.redraw(1, one_call.__code__, 0) is port.MISSING
    playback.finish()
    playback.finish()  # a forked worker is finished where it leaves, and again by `atexit`
    assert report == ([fr.DRIFT] if installs else []) + [fr.SPENT]


def test_a_way_out_is_reported_and_then_refused() -> None:
    played = one_call()
    with pytest.raises(PermissionError, match="no recording claims it"):
        played.playback.note("socket.connect", "1.2.3.4:5")
    assert played.said(fr.ATTEMPT) == [
        {"what": "socket.connect", "where": "1.2.3.4:5", "stoppedBy": "audit hook", "path": "0"}
    ]


# --- programs that hide it --------------------------------------------------------------------------------------------

HIDES = """
import asyncio, sys, threading, httpx
BASE, word = sys.argv[1:]
async def ask(client, word):
    return (await client.post(BASE, content=word)).text
async def main():
    async with httpx.AsyncClient() as client:
        found = await asyncio.gather(ask(client, word), ask(client, "the same"), return_exceptions=True)
        print(len(found))
        await asyncio.gather(ask(client, word), return_exceptions=True)
try:
    asyncio.run(main())
except BaseException:
    pass
def in_thread():
    try: httpx.post(BASE, content=word)
    except BaseException: pass
thread = threading.Thread(target=in_thread); thread.start(); thread.join()
try:
    httpx.post(BASE, content=word)
except:
    pass
print("ends well")
"""


def test_a_program_that_swallows_everything_cannot_hide_a_miss(tmp_path: Path) -> None:
    with ScriptedServer([], then=plain("answer")) as server:
        recorded = Session(tmp_path, HIDES).record(server.url, "a word")
        before = server.hits
        replayed = recorded.replay(server.url, "another", limit_s=40)
        assert server.hits == before
    assert recorded.out.endswith("ends well\n")
    assert "ends well" in replayed.ended.out
    assert len(replayed.misses) >= 3
    assert {miss["firstDifference"]["path"].split("/")[1] for miss in replayed.misses} == {"body"}


LESS_AND_MORE = """
import sys, httpx
for number in range(int(sys.argv[2])):
    print(httpx.get(sys.argv[1] + f"/{number}").text)
"""


@pytest.mark.parametrize("calls", [1, 2, 4])
def test_fewer_and_more_calls_than_recorded_are_told_apart(tmp_path: Path, calls: int) -> None:
    with ScriptedServer(lambda request: plain(request.path)) as server:
        recorded = Session(tmp_path, LESS_AND_MORE).record(server.url, "3")
        replayed = recorded.replay(server.url, str(calls))
    assert sorted(replayed.served) == list(range(1, min(calls, 3) + 1))
    assert len(replayed.misses) == max(0, calls - 3)
    assert (replayed.ended.status == 0) == (calls <= 3)


def test_a_replay_goes_on_where_the_recorded_program_was_waiting_when_it_was_killed(tmp_path: Path) -> None:
    """The recorded effect never ended: the replayed program waits there too, and is not given an invented end."""
    source = """
        import os, sys, threading, time, httpx
        def read():
            with httpx.stream("GET", sys.argv[1]) as r:
                for part in r.iter_raw():
                    print(part, flush=True)
            print("ended", flush=True)
        thread = threading.Thread(target=read, daemon=True); thread.start()
        thread.join(1.0)
        os._exit(0)
    """
    with ScriptedServer([], then=stream([b"one"], borders="reads", ending="hang")) as server:
        recorded = Session(tmp_path, source).record(server.url)
    assert recorded.out == "b'one'\n"
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.clean


def test_what_is_served_is_what_was_asked_for_even_among_many_alike(tmp_path: Path) -> None:
    source = """
        import sys, httpx
        for number in [*range(12), *range(6)]:
            messages = [{"role": "user", "content": f"turn {turn}"} for turn in range(number)]
            print(httpx.post(sys.argv[1], json={"messages": messages}).json())
    """
    with ScriptedServer(lambda request: json_reply({"n": request.number})) as server:
        recorded = Session(tmp_path, source).record(server.url)
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.served == list(range(1, 19))
