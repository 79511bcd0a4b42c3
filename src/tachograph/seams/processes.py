"""Processes that belong to the run: each gets a task path of its own, and us in it.

Whatever way a program starts another one, the child's environment gets what injection took out of ours, its task path,
and what else the listener wants it told; so a Python child records, or replays, as a part of the run. Ways that pass
`subprocess` are effects (`seams.subprocesses`), and so is `os.system`, whose output nobody can see. The others are told
to the listener, which may refuse them: `posix_spawn`, `exec`, and what `multiprocessing` starts by spawn or forkserver.
The program's own arguments and mappings are never changed, only what is handed on.
"""

from __future__ import annotations

import _posixsubprocess
import os

from tachograph.seams import context, injection, port
from tachograph.seams.context import starting
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Housekeeping of the standard library: it removes shared memory that was left behind and makes no effect of its own.
_TRACKER = "from multiprocessing.resource_tracker import main"


def child_path() -> str:
    """Return the task path of the process that is about to be started here."""
    return context.next_process().path


def environment_of(listener: port.Listener, given: Any, path: str) -> Any:
    """Return the environment of a child on that path: the given one (None: ours) with us in it."""
    return injection.for_child(given, **listener.for_child(path))


class Lent:
    """Lets a process that is started meanwhile inherit the listener's descriptors."""

    __slots__ = ("_numbers", "_token")

    def __init__(self, listener: port.Listener) -> None:
        self._numbers = listener.lends

    def __enter__(self) -> None:
        self._token = starting.set(True)
        for number in self._numbers:
            os.set_inheritable(number, True)

    def __exit__(self, *_: object) -> None:
        starting.reset(self._token)
        for number in self._numbers:
            os.set_inheritable(number, False)


def _words(args: Any) -> list[str]:
    return [os.fsdecode(word) for word in args]


def _patch_fork_exec() -> None:
    original = _posixsubprocess.fork_exec

    def fork_exec(args: Any, executables: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any) -> Any:
        listener = port.current
        words = _words(args) if listener is not None and not starting.get() else []
        if listener is None or not words or any(word.startswith(_TRACKER) for word in words):
            return original(args, executables, close_fds, pass_fds, cwd, env, *rest)
        words[:1] = _words(executables[:1])  # what is run, whatever it is told to be
        path = child_path()
        listener.process("process.fork_exec", words, path)
        given = None if env is None else dict(word.split(b"=", 1) for word in env)
        now = environment_of(listener, given, path)
        if now is not None:
            env = [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in now.items()]
        kept = tuple(sorted({*pass_fds, *listener.lends}))
        return original(args, executables, close_fds, kept, cwd, env, *rest)

    _posixsubprocess.fork_exec = fork_exec


def _started(what: str, original: Callable[..., Any], path: Any, argv: Any, env: Any, options: dict[str, Any]) -> Any:
    listener = port.current
    if listener is None or starting.get():
        return original(path, argv, env, **options)
    try:
        words = [os.fsdecode(path), *_words(argv)[1:]]  # what is run, whatever it is told to be
    except TypeError:
        return original(path, argv, env, **options)
    place = child_path()
    listener.process(what, words, place)
    now = environment_of(listener, env, place)
    with Lent(listener):
        return original(path, argv, now, **options)


def _patch_starts() -> None:
    spawn, spawnp, execve, execv = os.posix_spawn, os.posix_spawnp, os.execve, os.execv

    def posix_spawn(path: Any, argv: Any, env: Any, /, **options: Any) -> int:
        argv = argv if isinstance(argv, (list, tuple)) else list(argv)
        return int(_started("os.posix_spawn", spawn, path, argv, env, options))

    def posix_spawnp(path: Any, argv: Any, env: Any, /, **options: Any) -> int:
        argv = argv if isinstance(argv, (list, tuple)) else list(argv)
        return int(_started("os.posix_spawn", spawnp, path, argv, env, options))

    def replace(path: Any, argv: Any, env: Any) -> Any:
        return _started("os.exec", execve, path, argv, env, {})

    def replace_here(path: Any, argv: Any, /) -> Any:
        if port.current is None or not injection.is_injected():
            return execv(path, argv)
        return replace(path, argv, os.environ)

    replace.__name__ = replace.__qualname__ = "execve"
    replace_here.__name__ = replace_here.__qualname__ = "execv"
    os.posix_spawn, os.posix_spawnp, os.execve, os.execv = posix_spawn, posix_spawnp, replace, replace_here


def _patch_system() -> None:
    original = os.system

    def system(command: Any) -> int:
        listener = port.current
        if listener is None or starting.get() or not isinstance(command, (str, bytes, os.PathLike)):
            return original(command)
        path, words = child_path(), os.fsdecode(command)
        said = {
            "args": [words], "shell": True, "cwd": None, "executable": None, "streams": ["inherited"] * 3,
        }  # fmt: skip
        if listener.answers:
            stub = listener.ask_spawn(said, path)
            return stub.status << 8 if stub.status >= 0 else -stub.status
        exchange = listener.spawn(said)
        exchange.started(0, path)
        token = starting.set(True)
        try:
            status = original(_exports(environment_of(listener, None, path)) + words)
        except BaseException as fault:
            exchange.end(port.how_of(fault), fault)
            raise
        finally:
            starting.reset(token)
        exchange.exited(os.waitstatus_to_exitcode(status))
        return status

    os.system = system


def _exports(environment: Any) -> str:
    """Return what a shell must be told, on the command's own line, so that its children get this environment."""
    now = environment or {}
    changed = {name: value for name, value in now.items() if os.environ.get(name) != value}
    return "".join("export {}='{}'; ".format(name, value.replace("'", "'\\''")) for name, value in changed.items())


def _patch_processes(module: Any) -> None:
    process = module.BaseProcess
    original = process._bootstrap

    def _bootstrap(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return original(self, *args, **options)
        finally:
            # A forked worker leaves by `os._exit`, past `atexit`; one of a fresh interpreter does not.
            listener = port.current
            if listener is not None and context.is_forked():
                listener.finish()

    process._bootstrap = _bootstrap


def install() -> None:
    """Reach every child that is started past `subprocess`."""
    _patch_fork_exec()
    _patch_starts()
    _patch_system()
    when_imported("multiprocessing.process", _patch_processes)
