"""Python children are parts of the run: each records on a task path of its own, and runs again in a replay."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.testing.scripted import Request, ScriptedServer, plain
from tests.seams.driver import Recorded, Session

CHILD = """
import os, random, sys, httpx
print(sys.argv[1:], httpx.post(sys.argv[1], content=b"from a child").text, random.random())
print("TACHO" in repr(sorted(os.environ)), file=sys.stderr)
print(os.environ.get("PYTHONPATH"), os.environ.get("PYTHONHASHSEED"), file=sys.stderr)
sys.exit(3)
"""

WAYS = {
    "script": "run([sys.executable, child, url])",
    "-c": "run([sys.executable, '-c', open(child).read(), url])",
    "-m": "run([sys.executable, '-m', 'child', url], cwd=os.path.dirname(child))",
    "shebang": "run([script, url])",
    "on PATH": "run([os.path.basename(script), url], env={**os.environ, 'PATH': os.path.dirname(script)})",
    "env": "run(['env', sys.executable, child, url])",
    "no environment": "run([sys.executable, child, url], env={})",
    "bytes environment": "run([sys.executable, child, url], env={b'A': b'b'})",
    "descriptors kept": "run([sys.executable, child, url], close_fds=False)",
    "preexec": "run([sys.executable, child, url], preexec_fn=os.getpid)",
    "asyncio": "asyncio.run(later(sys.executable, child, url))",
    "a child of a child": "run([sys.executable, '-c', CALLS, sys.executable, child, url])",
}

PROGRAM = """
import asyncio, os, subprocess, sys
url, child, script = sys.argv[1:4]
CALLS = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"

def run(args, **options):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    return done.returncode, done.stdout, done.stderr

async def later(*args):
    process = await asyncio.create_subprocess_exec(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await process.communicate()
    return process.returncode, out, err

print(eval(sys.argv[4]))
"""


def _back(request: Request) -> object:
    return plain(request.body)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "child.py").write_text(CHILD)
    script = tmp_path / "script"
    script.write_text(f"#!{sys.executable}\n{CHILD}")
    script.chmod(0o755)
    return Session(tmp_path, PROGRAM)


def _args(session: Session, server: ScriptedServer, way: str) -> tuple[str, ...]:
    return server.url, str(session.folder / "child.py"), str(session.folder / "script"), WAYS.get(way, way)


def _record(session: Session, server: ScriptedServer, way: str) -> Recorded:
    recorded = session.record(*_args(session, server, way))
    assert recorded.out.startswith("(3, "), recorded.ended
    return recorded


@pytest.mark.parametrize("way", list(WAYS))
def test_a_python_child_records_on_a_path_of_its_own_and_runs_again(session: Session, way: str) -> None:
    with ScriptedServer(_back) as server:
        plainly = session.plain(*_args(session, server, way)).out
        recorded = _record(session, server, way)
        hits = server.hits
        replayed = recorded.replay()
        assert server.hits == hits == 2
    (call,) = [effect for effect in recorded.log.effects if effect.kind == "http"]
    assert "/p1" in call.path
    assert recorded.notes() == []
    said = recorded.out.split("\\n")
    assert plainly.split("\\n")[1:-2] == said[1:-2]  # but for what is random, and the hash seed
    assert replayed.out == recorded.out
    assert replayed.clean, replayed.misses or replayed.attempts
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]
    assert replayed.said(fr.ANSWERED) == []


PAST_SUBPROCESS = {
    "posix_spawn": "os.waitpid(os.posix_spawn({file!r}, words, os.environ), 0)",
    "posix_spawnp": "os.waitpid(os.posix_spawnp({file!r}, words, os.environ), 0)",
    "spawnv": "os.spawnv(os.P_WAIT, {file!r}, words)",
    "fork and exec": "os.waitpid(os.fork() or os.execve({file!r}, words, os.environ), 0)",
}


@pytest.mark.parametrize("way", PAST_SUBPROCESS)
def test_a_child_started_past_subprocess_runs_again_and_no_other_program_in_its_name(
    session: Session, way: str
) -> None:
    other = session.folder / "other"
    other.write_text(f"#!/bin/sh\ntouch {session.folder}/ran\n")
    other.chmod(0o755)
    with ScriptedServer(_back) as server:
        words = f"words = [{sys.executable!r}, {str(session.folder / 'child.py')!r}, {server.url!r}]"
        program = f"import os\n{words}\n{PAST_SUBPROCESS[way]}\nprint('done')\n"
        session.rewrite(program.format(file=sys.executable))
        recorded = session.record()
        hits = server.hits
        assert recorded.replay().clean
        session.rewrite(program.format(file=str(other)))
        replayed = recorded.replay()
        assert server.hits == hits == 1
    assert [attempt["where"].split()[0] for attempt in replayed.attempts] == [str(other)]
    assert not (session.folder / "ran").exists()


def test_a_process_that_cannot_load_the_replay_does_not_run(session: Session) -> None:
    (session.folder / "lib").mkdir()
    words = f"[sys.executable, {str(session.folder / 'child.py')!r}, sys.argv[1]]"
    session.rewrite(f"""
        import os, subprocess, sys
        env = {{**os.environ, "PYTHONPATH": {str(session.folder / "lib")!r}}}
        print(subprocess.run({words}, env=env, capture_output=True).returncode)
    """)
    with ScriptedServer(_back) as server:
        recorded = session.record(server.url)
        assert (recorded.out, server.hits) == ("3\n", 1)
        (session.folder / "lib" / "mmap.py").write_text("raise ImportError('not here')\n")
        replayed = recorded.replay()
        assert server.hits == 1, "it ran without anybody to hold it"
    assert replayed.out == "127\n"
    assert "/answer/status" in [said["path"] for _, said in replayed.said(fr.ANSWERED)]


WRAPPERS = {
    "wrapper": 'exec {python} {child} "$1"',  # becomes the Python that records itself
    "child.py": '{python} {child} "$1"; exit $?',  # has its name, and is another process
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_that_leads_to_python_is_played_and_not_run(session: Session, name: str) -> None:
    wrapper = session.folder / "bin" / name
    wrapper.parent.mkdir()
    lead = WRAPPERS[name].format(python=sys.executable, child=session.folder / "child.py")
    wrapper.write_text(f"#!/bin/sh\necho ran >> {session.folder}/ran\n{lead}\n")
    wrapper.chmod(0o755)
    with ScriptedServer(_back) as server:
        recorded = _record(session, server, f"run([{str(wrapper)!r}, url])")
        replayed = recorded.replay()
        assert server.hits == 1
    assert (session.folder / "ran").read_text() == "ran\n", "it was run in the replay"
    assert replayed.out == recorded.out
    assert replayed.clean
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]
