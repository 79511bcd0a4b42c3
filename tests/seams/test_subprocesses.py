"""Started programs: what they wrote and how they ended is recorded where it is read, and played again exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tests.seams.driver import Recorded, Session

# Programs to start, in Python because it writes any bytes. Each leaves a mark in a file when it really runs.
WRITER = """
import json, pathlib, subprocess, sys
from subprocess import DEVNULL, PIPE, STDOUT, Popen, check_output, run
HEAD = "import os, sys, time; open('ran', 'a').write('x'); "
def py(code):
    return [sys.executable, "-I", "-c", HEAD + code]  # it does not load us: a replay plays it and does not start it
BYTES = py("os.write(1, bytes(range(256))); os.write(2, bytes([255, 32, 102, 13, 10]))")
TEXT = py("print('gr\\u00fc\\u00dfe'); print('line two' + chr(13)); print('fault', file=sys.stderr)")
said = []
"""

WAYS = {
    "run both": "r = run(BYTES, capture_output=True); said = [r.stdout.hex(), r.stderr.hex(), r.returncode]",
    "run stdout": "r = run(BYTES, stdout=PIPE, stderr=DEVNULL); said = [r.stdout.hex(), r.stderr, r.returncode]",
    "run merged": "r = run(BYTES, stdout=PIPE, stderr=STDOUT); said = [r.stdout.hex(), r.stderr, r.returncode]",
    "run text": "r = run(TEXT, capture_output=True, text=True); said = [r.stdout, r.stderr]",
    "run encoding": "said = [run(BYTES, stdout=PIPE, encoding='latin-1').stdout]",
    "run errors": "said = [run(BYTES, stdout=PIPE, text=True, errors='replace').stdout]",
    "check_output": "said = [check_output(TEXT).hex()]",
    "check_output fails": """
try:
    check_output(py("print(1); sys.exit(7)"))
except subprocess.CalledProcessError as fault:
    said = [fault.returncode, fault.output.hex(), fault.stderr, str(fault)]
""",
    "call": "said = [subprocess.call(py('sys.exit(3)'))]",
    "getoutput": "said = [subprocess.getstatusoutput('echo x >> ran; echo out; echo err >&2; exit 4')]",
    "shell": "said = [str(run('echo x >> ran; printf a; printf b >&2; exit 5', shell=True, capture_output=True))]",
    "readline": """
p = Popen(TEXT, stdout=PIPE, stderr=DEVNULL)
said = [line.hex() for line in p.stdout] + [p.stdout.read().hex(), p.wait(), p.poll()]
""",
    "readline text": """
with Popen(TEXT, stdout=PIPE, stderr=STDOUT, text=True, bufsize=1) as p:
    said = list(p.stdout)
said.append(p.returncode)
""",
    "unbuffered": """
p = Popen(BYTES, stdout=PIPE, stderr=DEVNULL, bufsize=0)
said = [p.stdout.read(5).hex(), p.stdout.readall().hex(), p.stdout.read(1).hex(), p.wait()]
""",
    "read in parts": """
p = Popen(BYTES, stdout=PIPE, stderr=PIPE)
said = [p.stdout.read(10).hex(), p.stdout.read1(3).hex(), p.stdout.read().hex(), p.stderr.readline().hex(), p.wait()]
""",
    "wait first": """
p = Popen(TEXT, stdout=PIPE, stderr=PIPE)
p.wait()
said = [p.stderr.read().hex(), p.stdout.read().hex(), p.returncode]
""",
    "communicate in two": """
p = Popen(py("sys.stdin.read(); print(1)"), stdin=PIPE, stdout=PIPE, stderr=PIPE)
try:
    p.communicate(timeout=0.01)
except subprocess.TimeoutExpired:
    pass
said = [part.hex() for part in p.communicate()]
""",
    "by signal": """
r = run(py("print(1, flush=True); os.kill(os.getpid(), 11)"), stdout=PIPE)
said = [r.returncode, r.stdout.hex()]
""",
    "killed": """
p = Popen(py("print(1, flush=True); time.sleep(99)"), stdout=PIPE)
said = [p.stdout.readline().hex()]
p.kill()
said.append(p.wait())
""",
    "not there": """
try:
    run(["/not/there", "a"])
except FileNotFoundError as fault:
    said = [str(fault), fault.errno, fault.filename, type(fault).__name__]
""",
    "no folder": """
try:
    run(["ls"], cwd="/not/there")
except FileNotFoundError as fault:
    said = [str(fault), fault.errno, fault.filename]
""",
    "not allowed": """
open("plain", "w").close()
try:
    run(["./plain"])
except PermissionError as fault:
    said = [str(fault), fault.errno]
""",
    "nothing": "r = run(py(''), capture_output=True); said = [str(r.stdout), str(r.stderr), r.returncode]",
    "generator": "said = [run((word for word in ['echo', 'a']), stdout=PIPE).stdout.hex()]",
    "positional": "said = [Popen(['echo', 'a'], -1, None, None, PIPE).communicate()[0].hex()]",
    "paths": "said = [run([pathlib.Path('/bin/echo'), b'a'], stdout=PIPE).stdout.hex()]",
}


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """One program that starts others in every way, one after the other."""
    parts = [f"{code}\nprint(json.dumps([{way!r}, said]), flush=True)\n" for way, code in WAYS.items()]
    return Session(tmp_path_factory.mktemp("ways"), WRITER + "".join(parts)).record()


def test_a_recorded_program_reads_what_it_would_have_read(ways: Recorded) -> None:
    without = ways.session.plain()
    assert without.status == 0, without.err
    assert ways.out == without.out


@pytest.fixture(scope="module")
def again(ways: Recorded) -> dict[str, object]:
    """What the replayed program said, way by way; it started nothing, missed nothing, and used every recording."""
    marks = (ways.session.folder / "ran").read_bytes()
    replayed = ways.replay()
    assert (ways.session.folder / "ran").read_bytes() == marks, "a program was really started"
    assert replayed.clean
    assert sorted(replayed.served) == [effect.index for effect in ways.log.effects]
    return dict(json.loads(line) for line in replayed.out.splitlines())


@pytest.mark.parametrize("way", WAYS)
def test_outputs_and_ends_are_recorded_and_played_again(ways: Recorded, again: dict[str, object], way: str) -> None:
    assert again[way] == dict(json.loads(line) for line in ways.out.splitlines())[way]


def test_the_record_holds_arguments_streams_status_and_error(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import subprocess
        subprocess.run(["sh", "-c", "printf out; printf err >&2; exit 3"], capture_output=True, cwd="/")
        subprocess.run("exit 0", shell=True, stdin=subprocess.DEVNULL)
        try: subprocess.run(["/not/there"])
        except OSError: pass
        subprocess.run(["sh", "-c", "kill -9 $$"])
    """).record()  # fmt: skip
    assert recorded.out == ""
    first, second, third, fourth = recorded.log.effects
    assert first.command == {
        "args": ["sh", "-c", "printf out; printf err >&2; exit 3"], "shell": False, "cwd": "/", "executable": None,
        "streams": ["inherited", "pipe", "pipe"],
    }  # fmt: skip
    assert (first.output(1), first.output(2), first.exit_status, first.ended) == (b"out", b"err", 3, "exited")
    assert (second.command["shell"], second.command["streams"][0], second.exit_status) == (True, "null", 0)
    assert (third.ended, third.exit_status) == ("error", None)
    assert b"FileNotFoundError" in third.error
    assert fourth.exit_status == -9
    assert {effect.path for effect in recorded.log.effects} == {"0"}


ASYNC = """
import asyncio, sys
PY = [sys.executable, "-c"]
async def one(*args, **options):
    p = await asyncio.create_subprocess_exec(*args, stdout=-1, stderr=-1, **options)
    return p, [part.hex() for part in await p.communicate()], p.returncode
async def main():
    p, parts, status = await one(*PY, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(6)")
    print(parts, status, await p.wait())
    p = await asyncio.create_subprocess_shell("printf 'a\\\\nb\\\\nc'", stdout=-1)
    print([line async for line in p.stdout], await p.wait())
    p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    for word in (b"one\\n", b"two\\n"):
        p.stdin.write(word); await p.stdin.drain()
        print(await p.stdout.readline())
    p.stdin.close(); print(await p.wait())
    p = await asyncio.create_subprocess_exec("sh", "-c", "cat >/dev/null; echo done", stdin=-1, stdout=-1)
    p.stdin.write(b"x" * 3_000_000); await p.stdin.drain(); p.stdin.close()
    print(await p.stdout.readline(), await p.wait())
    print(await asyncio.gather(*[shell(f"printf {name}") for name in "xyz"]))
    try:
        await asyncio.create_subprocess_exec("/not/there")
    except FileNotFoundError as fault:
        print(fault)
    p = await asyncio.create_subprocess_exec("sh", "-c", "kill -15 $$"); print(await p.wait())
async def shell(line):
    p = await asyncio.create_subprocess_shell(line, stdout=-1)
    return (await p.communicate())[0]
if len(sys.argv) > 1:
    import uvloop
    uvloop.install()
asyncio.run(main())
"""


@pytest.mark.parametrize("loop", ["", "uvloop"])
def test_programs_started_with_asyncio_are_recorded_and_played_again(tmp_path: Path, loop: str) -> None:
    session = Session(tmp_path, ASYNC)
    recorded = session.record(*loop.split())
    assert recorded.out == session.plain(*loop.split()).out
    assert recorded.notes() == []
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.clean
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]


def test_five_megabytes_on_both_streams_are_played_whichever_is_read_first(tmp_path: Path) -> None:
    writer = (
        "import sys, threading; block = bytes(range(251)) * 20000; "
        "threads = [threading.Thread(target=f.buffer.write, args=(block,)) for f in (sys.stdout, sys.stderr)]; "
        "[t.start() for t in threads]; [t.join() for t in threads]"
    )
    recorded = Session(tmp_path, f"""
        import hashlib, subprocess, sys
        def told(*parts):
            print([(len(part), hashlib.sha256(part).hexdigest()) for part in parts])
        for first, second in (("stdout", "stderr"), ("stderr", "stdout")):
            import threading
            p = subprocess.Popen([sys.executable, "-c", {writer!r}, first], stdout=-1, stderr=-1)
            if first == "stdout":
                told(*p.communicate())
            else:
                rest = []
                thread = threading.Thread(target=lambda: rest.append(p.stdout.read()))
                thread.start(); told(p.stderr.read()); thread.join(); told(*rest); p.wait()
    """).record()  # fmt: skip
    assert len(recorded.log.effects[0].output(1)) == len(recorded.log.effects[0].output(2)) == 5020000
    replayed = recorded.replay()
    assert replayed.out == recorded.out


def test_a_stream_that_is_read_to_its_end_first_does_not_wait_for_the_other(tmp_path: Path) -> None:
    """The recorded program ended its stderr before it filled stdout; a stub must not block on stdout."""
    recorded = Session(tmp_path, """
        import subprocess
        writer = "printf fault >&2; exec 2>&-; head -c 300000 /dev/zero"
        p = subprocess.Popen(["sh", "-c", writer], stdout=-1, stderr=-1)
        print(p.stderr.read(), len(p.stdout.read()), p.wait())
    """).record()  # fmt: skip
    assert recorded.out == "b'fault' 300000 0\n"
    assert recorded.replay(limit_s=30).out == recorded.out


DIALOGUE = """
import subprocess
p = subprocess.Popen(["cat"], stdin=-1, stdout=-1, text=True, bufsize=1)
for word in ("one", "two", "three" * 30000):
    print(word, file=p.stdin)
    print(len(p.stdout.readline()))
p.stdin.close()
print(p.wait())
q = subprocess.Popen(["sh", "-c", "read a; echo $a; exit 4"], stdin=-1, stdout=-1)
print(q.communicate(b"x\\n" * 200000), q.returncode)
import socket
ours, theirs = socket.socketpair()
r = subprocess.Popen(["sh", "-c", "cat >/dev/null; echo done"], stdin=theirs, stdout=-1)
theirs.close(); ours.sendall(b"x" * 3000000); ours.close()
print(r.stdout.read(), r.wait())
"""


def test_a_dialogue_over_stdin_does_not_block(tmp_path: Path) -> None:
    session = Session(tmp_path, DIALOGUE)
    recorded = session.record()
    assert recorded.out == session.plain().out
    assert recorded.replay(limit_s=30).out == recorded.out


@pytest.mark.parametrize("opened", [0, 6, 40])
def test_a_stub_needs_no_particular_descriptor(tmp_path: Path, opened: int) -> None:
    recorded = Session(tmp_path, f"""
        import os, subprocess
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range({opened})]
        read, write = os.pipe()
        print(subprocess.run("cat; echo b >&2", shell=True, input=b"a", capture_output=True).stdout)
        print(subprocess.run(["sh", "-c", "true"], pass_fds=[write], stdout=-1).returncode)
    """).record()  # fmt: skip
    assert recorded.out == "b'a'\n0\n"
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.ended.err == recorded.ended.err == ""


def test_a_program_that_was_not_started_is_a_miss_and_is_not_started(tmp_path: Path) -> None:
    source = "import subprocess\nprint(subprocess.run(['touch', 'one'], stdout=-1).returncode)\n"
    session = Session(tmp_path, source)
    recorded = session.record()
    session.rewrite(source.replace("'one'", "'two'"))
    replayed = recorded.replay()
    assert replayed.ended.status != 0
    assert "EffectMissed" in replayed.ended.err
    (miss,) = replayed.misses
    assert miss["call"] == {"kind": "subprocess", "endpoint": "touch two"}
    assert not (tmp_path / "two").exists()


def test_a_program_started_twice_is_answered_twice_and_not_a_third_time(tmp_path: Path) -> None:
    source = "import subprocess\nfor _ in range(2): print(subprocess.check_output('date +%N', shell=True))\n"
    session = Session(tmp_path, source)
    recorded = session.record()
    assert recorded.replay().out == recorded.out
    assert len(set(recorded.out.splitlines())) == 2
    session.rewrite(source.replace("range(2)", "range(3)"))
    assert len(recorded.replay().misses) == 1


def test_what_was_read_is_in_the_spool_before_the_program_has_it(tmp_path: Path) -> None:
    """The program is killed right after its first line: that line is in the record."""
    recorded = Session(tmp_path, """
        import os, subprocess
        p = subprocess.Popen(["sh", "-c", "echo first; exec sleep 30"], stdout=-1)
        p.stdout.readline()
        p.kill()
        os.kill(os.getpid(), 9)
    """).record()  # fmt: skip
    (effect,) = recorded.log.effects
    assert (effect.output(1), effect.ended) == (b"first\n", "open_at_end")
    assert fr.EXITED not in [frame.kind for frame in recorded.frames]


# --- what it is fed ---------------------------------------------------------------------------------------------------

FEEDS = {
    "run": "print(run(['cat'], input=b'one QUESTION', stdout=PIPE).stdout)",
    "both pipes": "print(run(['cat'], input='one QUESTION', capture_output=True, text=True).stdout)",
    "written": """
p = Popen(["cat"], stdin=PIPE, stdout=PIPE, text=True)
p.stdin.write("one "); p.stdin.flush(); p.stdin.write("QUESTION"); p.stdin.close()
print(p.stdout.read(), p.wait())
""",
    "unbuffered": """
p = Popen(["cat"], stdin=PIPE, stdout=PIPE, bufsize=0)
p.stdin.write(b"one "); p.stdin.write(b"QUESTION"); p.stdin.close()
print(p.stdout.read(), p.wait())
""",
    "asyncio": """
import asyncio
async def main():
    p = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    print((await p.communicate(b"one QUESTION"))[0])
asyncio.run(main())
""",
}


@pytest.mark.parametrize("feed", FEEDS)
def test_other_input_gets_no_old_answer(tmp_path: Path, feed: str) -> None:
    session = Session(tmp_path, WRITER + FEEDS[feed])
    recorded = session.record()
    assert "one QUESTION" in recorded.out
    (effect,) = recorded.log.effects
    assert (effect.body, effect.body_complete) == (b"one QUESTION", True)
    again = recorded.replay()
    assert again.out == recorded.out
    assert again.clean
    for other in ("one ANSWER!!", "one QUESTION more", "one "):
        session.rewrite(WRITER + FEEDS[feed].replace("one QUESTION", other).replace("QUESTION", other[4:]))
        replayed = recorded.replay()
        assert "one " not in replayed.ended.out
        (miss, *_) = replayed.misses
        assert miss["call"] == {"kind": "subprocess", "endpoint": "cat"}
        assert miss["firstDifference"]["path"] == "/stdin"
        assert miss["firstDifference"]["recorded"] == "one QUESTION"


def test_a_program_that_stops_reading_its_input_is_no_difference(tmp_path: Path) -> None:
    recorded = Session(tmp_path, WRITER + """
print(run(["head", "-c", "3"], input=b"x" * 3_000_000, stdout=PIPE).stdout)
print(run(["sh", "-c", "head -c 3; echo err >&2"], input=b"y" * 3_000_000, capture_output=True))
p = Popen(["head", "-c", "3"], stdin=PIPE, stdout=DEVNULL)
for step in (lambda: p.stdin.write(b"z" * 3_000_000), p.stdin.close):
    try:
        step()
    except BrokenPipeError:
        pass
p.wait()
""").record()  # fmt: skip
    assert [effect.body_complete for effect in recorded.log.effects] == [False, False, False]
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.misses == []


# --- time-outs and signals --------------------------------------------------------------------------------------------

SIGNALLED = """
def handles(code):
    return ["sh", "-c", f"trap '{code}' TERM; echo ready; while :; do sleep 0.05; done"]
try:
    run(["sleep", "60"], timeout=0.3, capture_output=True)
except subprocess.TimeoutExpired as fault:
    print(fault)
p = Popen(handles("echo bye; exit 3"), stdout=PIPE, text=True)
print(p.stdout.readline()); p.terminate(); print(p.stdout.read(), p.wait())
p = Popen(handles(":"), stdout=PIPE, text=True)
print(p.stdout.readline()); p.terminate()
try:
    p.wait(timeout=0.3)
except subprocess.TimeoutExpired:
    p.kill()
print(p.wait())
import asyncio
async def main():
    p = await asyncio.create_subprocess_exec("sleep", "60", stdout=PIPE)
    try:
        await asyncio.wait_for(p.communicate(), 0.3)
    except TimeoutError:
        p.terminate()
    print(await p.wait())
asyncio.run(main())
"""


def test_a_time_out_runs_out_in_a_replay_too_and_a_signal_ends_what_it_ended(tmp_path: Path) -> None:
    session = Session(tmp_path, WRITER + SIGNALLED)
    recorded = session.record()
    assert recorded.out == session.plain().out
    programs = [effect for effect in recorded.log.effects if effect.kind == "subprocess"]
    assert [(effect.ended, effect.exit_status) for effect in programs] == [
        ("cut_off", -9), ("cut_off", 3), ("cut_off", -9), ("cut_off", -15),
    ]  # fmt: skip
    replayed = recorded.replay(limit_s=30)
    assert replayed.out == recorded.out
    assert replayed.clean
