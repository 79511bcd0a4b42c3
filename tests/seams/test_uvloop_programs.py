"""Programs that uvloop starts are recorded and played, and Python children run again, as those of other loops are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seams.driver import Session

HEAD = """
import asyncio, os, signal, sys
from asyncio.subprocess import PIPE, create_subprocess_exec as start
import uvloop
"""
WAYS = {
    "a child runs again": """
    child = "import os, sys; print(os.getpid() > 0, sys.stdin.read()); sys.stderr.write(chr(8364)); sys.exit(3)"
    p = await start(sys.executable, "-c", child, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    print(await p.communicate(b"fed"), p.returncode)
""",
    "killed": """
    p = await start("sh", "-c", "echo begun; exec sleep 60", stdout=PIPE)
    until = os.times()[4] + 0.3
    while os.times()[4] < until: await asyncio.sleep(0)
    print(await p.stdout.readline(), p.returncode)
    p.kill()
    print(await p.wait(), p.returncode)
""",
    "ended by a signal that it takes": """
    p = await start("sh", "-c", "trap 'exit 5' TERM; echo set; while :; do sleep 0.05; done", stdout=PIPE)
    print(await p.stdout.readline())
    p.terminate()
    print(await p.wait())
""",
    "closed": """
    class Hears(asyncio.SubprocessProtocol):
        def __init__(self): self.over = asyncio.get_running_loop().create_future()
        def connection_lost(self, fault): self.over.set_result(fault)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(Hears, "sleep", "60", stdout=None, stderr=None)
    until = os.times()[4] + 0.3
    while os.times()[4] < until: await asyncio.sleep(0)
    print(transport.get_returncode())
    transport.close()
    print(await protocol.over, transport.get_returncode())
""",
    "a protocol of its own": """
    said = []
    class Hears(asyncio.SubprocessProtocol):
        def __init__(self): self.over = asyncio.get_running_loop().create_future()
        def connection_made(self, transport): said.append(type(transport) is not None)
        def pipe_data_received(self, fd, data): said.append((fd, data))
        def pipe_connection_lost(self, fd, fault): said.append(("lost", fd)) if fd else None
        def process_exited(self): said.append("exited")
        def connection_lost(self, fault): self.over.set_result(fault)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_shell(Hears, "read a; echo got $a; exit 4")
    stdin = transport.get_pipe_transport(0)
    print(type(protocol) is Hears, transport.get_protocol() is protocol, isinstance(stdin, asyncio.WriteTransport))
    stdin.writelines([b"one", b" two"]); stdin.write(b"\\n"); stdin.write_eof()
    print(await protocol.over, sorted(map(str, said)), transport.get_returncode(), transport.is_closing())
    print(repr(transport)[:20], isinstance(transport, asyncio.SubprocessTransport), transport.get_pipe_transport(7))
""",
    "an environment and a folder": """
    p = await start("sh", "-c", "echo $SAID; pwd", stdout=PIPE, env={"SAID": "hello", "PATH": os.defpath}, cwd="/")
    print((await p.communicate())[0])
    p = await start("sh", "-c", "env | grep -c TACHO", stdout=PIPE)
    print(await p.wait())
""",
    "what it starts meanwhile is its own": """
    import subprocess
    class Hears(asyncio.SubprocessProtocol):
        def __init__(self): self.over = asyncio.get_running_loop().create_future()
        def process_exited(self):
            pid = os.fork() or (subprocess.run(["true"]), os._exit(7))
            print(os.waitpid(pid, 0)[1])
        def connection_lost(self, fault): self.over.set_result(subprocess.run(["echo", "a"], stdout=-1).stdout)
    print(await (await asyncio.get_running_loop().subprocess_exec(Hears, "true"))[1].over)
""",
    "wrong": """
    for words, options in ((["/not/there"], {}), (["true"], {"cwd": "/not/there"}), (["true"], {"bufsize": 3})):
        try: await start(*words, **options)
        except (OSError, ValueError) as fault: print(type(fault).__name__, fault)
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_uvloop_starts_comes_back_as_it_was(tmp_path: Path, way: str) -> None:
    session = Session(tmp_path, f"{HEAD}async def main():{WAYS[way]}uvloop.run(main())\n")
    recorded = session.record()
    assert recorded.notes() == []
    assert recorded.out
    if way != "an environment and a folder":
        assert recorded.out == session.plain().out
    if way == "what it starts meanwhile is its own":
        assert len(recorded.log.effects) == 3
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert (replayed.misses, replayed.attempts) == ([], [])
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]


FED = """async def main():
    p = await start("cat", stdin=PIPE, stdout=PIPE)
    print((await p.communicate(b"one QUESTION"))[0])
uvloop.run(main())
"""


def test_other_input_gets_no_old_answer_on_uvloop(tmp_path: Path) -> None:
    session = Session(tmp_path, HEAD + FED)
    recorded = session.record()
    session.rewrite((HEAD + FED).replace("QUESTION", "OTHER"))
    replayed = recorded.replay()
    assert "QUESTION" not in replayed.ended.out
    (miss,) = replayed.misses
    assert miss["firstDifference"] == {"path": "/stdin", "recorded": "one QUESTION", "replayed": "one OTHER"}


def test_a_program_that_was_not_started_is_not_started_by_uvloop_either(tmp_path: Path) -> None:
    source = HEAD + "async def main():\n    await (await start('touch', 'one')).wait()\nuvloop.run(main())\n"
    session = Session(tmp_path, source)
    recorded = session.record()
    session.rewrite(source.replace("'one'", "'two'"))
    replayed = recorded.replay()
    assert [miss["call"]["endpoint"] for miss in replayed.misses] == ["touch two"]
    assert not (tmp_path / "two").exists()


def test_a_process_that_uvloop_forks_to_start_a_program_leaves_no_spool_of_its_own(tmp_path: Path) -> None:
    recorded = Session(tmp_path, HEAD + FED).record()
    assert len(recorded.readings) == 2, "the run's and the program's own"
