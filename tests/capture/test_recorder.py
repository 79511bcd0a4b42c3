"""The recorder keeps what the seams hand over, and whatever happens to it, the program goes on as it would have."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from tachograph.capture.recorder import MOST_TAGS, PIECE, Recorder
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import effects_of
from tachograph.intake.gather import gather
from tachograph.intake.logs import split
from tachograph.seams import port
from tachograph.testing.scripted import ScriptedServer, plain, stream
from tests.seams.driver import RUN, TAG_KEY, Session, marked_files, new_keys, read_all

PRIVATE, PUBLIC = new_keys()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """A recorder that no seam knows: it is called as a seam would."""
    return Recorder(str(tmp_path), run_id=RUN, public=PUBLIC, tag_key=TAG_KEY, facts={"argv": ["a"]})


def frames(folder: Path) -> list[fr.Frame]:
    return [fr.read_frame(data) for reading in read_all(folder, PRIVATE) for data in reading.frames]


# --- frames -----------------------------------------------------------------------------------------------------------


def test_its_first_frame_says_what_the_process_is(recorder: Recorder, tmp_path: Path) -> None:
    (frame,) = frames(tmp_path)
    said = values.decode(frame.payload)
    assert frame.kind == fr.PROCESS
    assert (said["argv"], said["pid"], said["parentPid"], said["path"]) == (["a"], os.getpid(), os.getppid(), "0")
    assert said["startedAt"] > 1_700_000_000_000_000_000
    (name,) = [path.name for path in tmp_path.glob("*.spool")]
    assert name.startswith(f"{RUN}.{os.getpid()}.")


def test_a_call_is_written_with_its_place_before_anything_else_of_it(recorder: Recorder, tmp_path: Path) -> None:
    one = recorder.call("httpx", "POST", "http://a/", [(b"X", b"1")], b"body")
    two = recorder.call("httpx", "GET", "http://a/", [], None)
    one.head(200, [(b"Y", b"2")], b"HTTP/1.1", b"OK")
    one.chunk(b"part")
    one.end("eof")
    two.part(b"streamed")
    two.sent()
    written = frames(tmp_path)[1:]
    assert [(frame.kind, frame.effect, frame.path) for frame in written] == [
        (fr.PATH, 0, 1), (fr.CALL, 1, 1), (fr.CALL, 2, 1), (fr.HEAD, 1, 1), (fr.CHUNK, 1, 1), (fr.END, 1, 1),
        (fr.BODY, 2, 1), (fr.SENT, 2, 1),
    ]  # fmt: skip
    assert [frame.flags for frame in written[1:3]] == [0, 1], "the second body is streamed"
    assert [frame.at_ns for frame in written] == sorted(frame.at_ns for frame in written)


def test_a_large_body_is_kept_in_pieces_and_read_as_one(recorder: Recorder, tmp_path: Path) -> None:
    body = os.urandom(3 * PIECE // 2)
    recorder.call("httpx", "PUT", "http://a/", [], body)
    streamed = recorder.call("httpx", "PUT", "http://b/", [], None)
    streamed.part(body)
    written = frames(tmp_path)[1:]
    assert [frame.kind for frame in written[1:]] == [fr.CALL, fr.BODY, fr.BODY, fr.SENT, fr.CALL, fr.BODY, fr.BODY]
    assert max(len(frame.payload) for frame in written) == PIECE
    one, two = effects_of(written).effects
    assert (one.body == body, one.body_complete) == (True, True)
    assert (two.body == body, two.body_complete) == (True, False)


def test_new_cookies_each_time_do_not_make_the_recorder_grow(recorder: Recorder) -> None:
    first = recorder.tags([(b"set-cookie:a", b"0")])
    for number in range(MOST_TAGS + 10):
        recorder.tags([(b"set-cookie:a", b"%d" % number)])
    assert len(recorder._known_tags) <= MOST_TAGS
    assert recorder.tags([(b"set-cookie:a", b"0")]) == first


def test_the_first_end_counts(recorder: Recorder, tmp_path: Path) -> None:
    one = recorder.call("httpx", "GET", "http://a/", [], b"")
    one.end("eof")
    one.end("closed_early")
    one.exited(3)
    one.leave(b"")
    assert [frame.kind for frame in frames(tmp_path)][3:] == [fr.END]


def test_waiting_draws_ride_in_the_next_frame_in_their_order(recorder: Recorder, tmp_path: Path) -> None:
    code = test_the_first_end_counts.__code__
    recorder.drew(1, code, 0, 0.5)
    recorder.drew(1, code, 0, 1.5)
    recorder.call("httpx", "GET", "http://a/", [], b"")
    kinds = [frame.kind for frame in frames(tmp_path)][1:]
    assert kinds == [fr.SITE, fr.PATH, fr.CALL], "naming a site or a path carries no draw"
    assert [value for _, _, value in fr.unpack_draws(frames(tmp_path)[-1].draws)] == [0.5, 1.5]


def test_draws_that_wait_when_the_process_ends_are_in_its_last_frame(recorder: Recorder, tmp_path: Path) -> None:
    recorder.drew(1, test_the_first_end_counts.__code__, 0, 7)
    recorder.finish()
    last = frames(tmp_path)[-1]
    assert (last.kind, [value for _, _, value in fr.unpack_draws(last.draws)]) == (fr.ENDED, [7])
    assert not recorder.write(fr.NOTE, b"", 0, 0, 0, 0, 0), "nothing is kept after it"


def test_equal_credentials_have_equal_tags_that_only_the_key_can_make(recorder: Recorder, tmp_path: Path) -> None:
    other = Recorder(str(tmp_path), run_id=RUN, public=PUBLIC, tag_key=b"other" * 7, facts={})
    secret = [(b"authorization", b"Bearer abc")]
    tags = recorder.tags(secret)
    assert tags == recorder.tags(secret)
    assert tags != recorder.tags([(b"authorization", b"Bearer abd")])
    assert tags != other.tags(secret)
    assert b"abc" not in tags
    assert recorder.tags([]) == b""


def test_a_set_cookie_leaves_a_placeholder_and_a_tag(recorder: Recorder, tmp_path: Path) -> None:
    one = recorder.call("httpx", "GET", "http://a/", [], b"")
    one.head(200, [(b"Set-Cookie", b"id=topsecret; Path=/")], b"HTTP/1.1", b"OK")
    head = frames(tmp_path)[-1]
    assert b"topsecret" not in head.payload
    assert b"Path=/" in head.payload


def test_a_decision_has_an_id_and_holds_what_is_said_of_it(recorder: Recorder, tmp_path: Path) -> None:
    number, minted = recorder.open({"agent": "a"})
    again, other = recorder.open({"agent": "b"})
    recorder.tell(fr.OUTPUT, number, {"text": "t"})
    assert (number, again) == (1, 2)
    assert minted.startswith("dec_")
    assert minted != other
    opened, _, output = frames(tmp_path)[2:]
    assert (opened.decision, values.decode(opened.payload)["id"]) == (1, minted)
    assert (output.decision, values.decode(output.payload)) == (1, {"text": "t"})


def test_it_takes_everything_that_a_listener_must(recorder: Recorder) -> None:
    assert recorder.answers is False
    assert port.current is None, "making one does not make it listen"


# --- when it fails ----------------------------------------------------------------------------------------------------

FULL = """
import resource, sys, httpx
print(httpx.get(sys.argv[1]).text)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
for _ in range(3):
    print(len(httpx.get(sys.argv[1] + "/big").text), httpx.get(sys.argv[1]).text)
print("went on")
"""


def test_on_a_full_disk_the_program_goes_on_with_one_line_and_the_gap_is_known(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: plain("x" * 9000 if request.path == "/big" else "small")) as server:
        recorded = Session(tmp_path, FULL).record(server.url)
    assert recorded.out == "small\n" + "9000 small\n" * 3 + "went on\n"
    (line,) = recorded.ended.err.splitlines()
    assert line.startswith("tachograph: recording stopped")
    assert [reading.gap for reading in recorded.readings] == [False, True]
    assert [reading.damage for reading in recorded.readings] == [[], []]
    first, *_ = recorded.log.effects
    assert (first.answer, first.ended) == (b"small", "eof"), "what was acknowledged before is whole"


def test_where_capture_is_required_a_full_disk_ends_the_program(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: plain("x" * 9000 if request.path == "/big" else "small")) as server:
        recorded = Session(tmp_path, FULL).record(server.url, settings={"REQUIRE": "1"})
    assert recorded.ended.status == 3
    assert "went on" not in recorded.ended.out
    assert "capture is required" in recorded.ended.err


def test_a_killed_program_leaves_every_acknowledged_effect(tmp_path: Path) -> None:
    source = """
        import os, sys, httpx
        for number in range(5):
            print(httpx.get(sys.argv[1] + f"/{number}").text, flush=True)
        os.kill(os.getpid(), 9)
    """
    with ScriptedServer(lambda request: plain(request.path)) as server:
        recorded = Session(tmp_path, source).record(server.url)
    assert recorded.ended.status == -9
    assert [effect.answer.decode() for effect in recorded.log.effects] == recorded.ended.out.split()
    assert fr.ENDED not in [frame.kind for frame in recorded.frames]


# --- forks ------------------------------------------------------------------------------------------------------------


def test_after_a_fork_the_child_records_into_a_file_of_its_own(tmp_path: Path) -> None:
    source = """
        import os, sys, httpx
        print(httpx.get(sys.argv[1] + "/before").text, flush=True)
        child = os.fork()
        if child == 0:
            print(httpx.get(sys.argv[1] + "/child").text, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(httpx.get(sys.argv[1] + "/after").text, flush=True)
    """
    with ScriptedServer(lambda request: plain(request.path)) as server:
        recorded = Session(tmp_path, source).record(server.url)
    assert recorded.out == "/before\n/child\n/after\n"
    assert len(recorded.readings) == 3
    assert recorded.gathered.damage == []
    assert [effect.answer for effect in recorded.log.effects] == [b"/before", b"/child", b"/after"]
    assert len({reading.file_id for reading in recorded.readings}) == 3


INHERITED = """
import gc, os, sys, httpx, tachograph
client = httpx.Client()
@tachograph.tool
def forks():
    with client.stream("GET", sys.argv[1] + "/open") as held:
        parts = held.iter_raw()
        print(next(parts), flush=True)
        child = os.fork()
        if child == 0:
            own = httpx.get(sys.argv[1] + "/child")
            print(own.text, flush=True)
            parts.close()  # what the child inherited of the parent's answer ends here, in the child alone
            os._exit(0)
        os.waitpid(child, 0)
        print(sum(map(len, parts)), flush=True)
with tachograph.decision(agent="a") as d:
    forks()
    d.output("done")
"""


def test_what_a_child_inherits_of_an_open_effect_is_not_taken_for_its_own(tmp_path: Path) -> None:
    def script(request: object) -> object:
        return stream([b"first", b"rest"], borders="reads") if "open" in str(request) else plain("own")

    with ScriptedServer(script) as server:  # type: ignore[arg-type]
        recorded = Session(tmp_path, INHERITED).record(server.url)
    assert recorded.out == "b'first'\nown\n4\n"
    assert recorded.gathered.damage == []
    tool, held, own = recorded.log.effects
    assert (tool.ended, held.ended, own.ended) == ("returned", "eof", "eof")
    assert (held.answer, own.answer) == (b"firstrest", b"own")
    assert (held.parent, own.parent) == (tool.index, tool.index), "the child works inside what its parent had begun"


def test_a_place_that_the_child_inherits_is_named_anew_in_its_file(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import os, threading, time
        def drawn():
            time.time()
            child = os.fork()
            time.time_ns()
            if child == 0:
                import atexit; atexit._run_exitfuncs(); os._exit(0)
            os.waitpid(child, 0)
        time.time()
        thread = threading.Thread(target=drawn); thread.start(); thread.join()
    """).record()  # fmt: skip
    assert recorded.gathered.damage == []
    kinds = sorted((draw.site[0], draw.path) for draw in recorded.log.draws)
    assert kinds == [("time.time", "0"), ("time.time", "0/t1"), ("time.time_ns", "0/t1"), ("time.time_ns", "0/t1/p1")]


def test_a_pool_of_forked_processes_is_recorded(tmp_path: Path) -> None:
    source = """
        import multiprocessing, sys, httpx
        def fetch(number):
            return httpx.get(sys.argv[1] + f"/{number}").text
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(fetch, range(4)))
    """
    with ScriptedServer(lambda request: plain(request.path)) as server:
        recorded = Session(tmp_path, source).record(server.url)
    assert recorded.out == "['/0', '/1', '/2', '/3']\n"
    assert sorted(effect.answer for effect in recorded.log.effects) == [b"/0", b"/1", b"/2", b"/3"]
    assert recorded.gathered.damage == []


def test_a_program_with_very_many_tasks_is_not_kept_in_memory(tmp_path: Path) -> None:
    """Places come and go with the tasks: what the recorder holds must not grow with them."""
    recorded = Session(tmp_path, """
        import asyncio, gc, time
        from tachograph.seams import context
        async def one():
            time.time()
        async def main():
            for _ in range(3000):
                await asyncio.create_task(one())
        asyncio.run(main())
        gc.collect()
        print(sum(type(thing) is context.Place for thing in gc.get_objects() if gc.is_tracked(thing)) < 100)
    """).record()  # fmt: skip
    assert recorded.out == "True\n"
    assert len({draw.path for draw in recorded.log.draws}) == 3000


# --- what it brings into the program ----------------------------------------------------------------------------------


def test_only_the_standard_library_and_cryptography_come_into_a_recorded_program(tmp_path: Path) -> None:
    session = Session(tmp_path, "import sys\nprint(sorted({name.partition('.')[0] for name in sys.modules}))\n")
    recorded = session.record()
    ours = set(ast.literal_eval(recorded.out)) - set(ast.literal_eval(session.plain().out))
    assert ours - set(sys.stdlib_module_names) <= {
        "tachograph", "cryptography", "_cffi_backend", "_openssl", "sitecustomize",
    }  # fmt: skip
    heavy = {"asyncio", "dataclasses", "enum", "re", "socket", "subprocess", "typing", "inspect", "logging", "json"}
    assert ours & heavy == set(), "a program pays for nothing that it does not import itself"


def test_nothing_that_a_program_says_is_readable_on_disk(tmp_path: Path) -> None:
    words = [b"the-request-body", b"the-answer-body", b"the-output-text", b"the-tool-input", b"the-path"]
    source = """
        import sys, httpx, tachograph
        @tachograph.tool
        def tool(word): return word
        with tachograph.decision(agent="a", request="the-request-body") as d:
            httpx.post(sys.argv[1] + "/the-path", content=b"the-request-body")
            tool("the-tool-input"); d.output("the-output-text")
    """
    with ScriptedServer([], then=plain("the-answer-body")) as server:
        recorded = Session(tmp_path, source).record(server.url)
    assert recorded.out == ""
    assert list(marked_files(recorded.spool, words)) == []
    plaintext = b"".join(log.data for log in recorded.logs)
    assert all(word in plaintext for word in words), "and all of it is in the record"


def test_the_files_of_one_recorder_alone_are_a_run(recorder: Recorder, tmp_path: Path) -> None:
    recorder.call("httpx", "GET", "http://a/", [], b"").end("eof")
    recorder.finish()
    gathered = gather(read_all(tmp_path, PRIVATE))
    (log,) = split(RUN, gathered)
    assert (log.decision_id, log.is_run) == ("dec_" + RUN[4:], True)
