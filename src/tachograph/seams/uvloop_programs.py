"""The seam of programs that uvloop starts: it does so in libuv, past `subprocess` and without an audit event.

`Loop.subprocess_exec` and `subprocess_shell`, on which `asyncio.create_subprocess_exec` stands there, are one effect
per program, as in `seams.subprocesses`: the same command, the same stub, the same Python children that run again.
Between uvloop's transport and the program's protocol stand two objects that hand over what passes; to whoever looks at
them, they are what they stand for. An input that the program never closed is closed by the stub, as the recorded one
did: uvloop tells the protocol that all is over only then.
"""

from __future__ import annotations

import os

from tachograph.seams import port
from tachograph.seams.context import starting
from tachograph.seams.imports import when_imported
from tachograph.seams.processes import child_path, environment_of
from tachograph.seams.subprocesses import command_of, stub_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_PIPES = {"stdin": -1, "stdout": -1, "stderr": -1}  # what the loop's own methods do where nothing is said


class _StandsFor:
    """Something of which only what is written here is different. To whoever looks at it, it is that thing."""

    __slots__ = ("_exchange", "_inner")

    def __init__(self, inner: Any, exchange: Any) -> None:
        self._inner, self._exchange = inner, exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)

    __class__: Any = property(lambda self: self._inner.__class__)


class _Input(_StandsFor):
    """The transport of a program's stdin: hands over what it is fed, and that it was all."""

    __slots__ = ()

    def write(self, data: Any) -> None:
        if data:
            self._exchange.part(bytes(data))
        self._inner.write(data)

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def write_eof(self) -> None:
        self._ending()
        self._inner.write_eof()

    def close(self) -> None:
        self._ending()
        self._inner.close()

    def _ending(self) -> None:
        if not self._inner.is_closing():
            self._exchange.sent()


class _Transport(_StandsFor):
    """The transport of a started program: its input is watched, and so are the signals that it is sent."""

    __slots__ = ("_input", "_protocol")

    def __init__(self, inner: Any, exchange: Any, protocol: _Protocol) -> None:
        super().__init__(inner, exchange)
        self._protocol = protocol
        given = inner.get_pipe_transport(0)
        self._input = None if given is None else _Input(given, exchange)

    def get_pipe_transport(self, fd: int) -> Any:
        return self._input if fd == 0 else self._inner.get_pipe_transport(fd)

    def get_protocol(self) -> Any:
        return self._protocol._inner

    def set_protocol(self, protocol: Any) -> None:
        self._protocol._inner = protocol

    def _signalled(self) -> None:
        if self._inner.get_returncode() is None:
            self._exchange.signalled()

    def send_signal(self, signal: int) -> None:
        if signal:
            self._signalled()
        self._inner.send_signal(signal)

    def terminate(self) -> None:
        self._signalled()
        self._inner.terminate()

    def kill(self) -> None:
        self._signalled()
        self._inner.kill()

    def close(self) -> None:
        self._signalled()
        self._inner.close()


class _Protocol(_StandsFor):
    """The program's protocol as uvloop calls it, in a context in which nothing is being started any more."""

    __slots__ = ("transport",)

    def _call(self, name: str, *args: Any) -> Any:
        token = starting.set(False)
        try:
            return getattr(self._inner, name)(*args)
        finally:
            starting.reset(token)

    def connection_made(self, transport: Any) -> None:
        self.transport = _Transport(transport, self._exchange, self)
        self._call("connection_made", self.transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._exchange.chunk(bytes(data), fd)
        self._call("pipe_data_received", fd, data)

    def pipe_connection_lost(self, fd: int, fault: Any) -> None:
        self._call("pipe_connection_lost", fd, fault)

    def process_exited(self) -> None:
        self._exchange.exited(self.transport.get_returncode())
        self._call("process_exited")

    def connection_lost(self, fault: Any) -> None:
        self._call("connection_lost", fault)


def _patch(module: ModuleType) -> None:
    loop: Any = module.Loop
    original_exec, original_shell = loop.subprocess_exec, loop.subprocess_shell

    async def begun(self: Any, factory: Any, exchange: Any, original: Any, words: Any, options: Any) -> tuple[Any, Any]:
        made: list[_Protocol] = []

        def protocol() -> _Protocol:
            made.append(_Protocol(factory(), exchange))
            return made[0]

        token = starting.set(True)
        try:
            await original(self, protocol, *words, **options)
        finally:
            starting.reset(token)
        return made[0].transport, made[0]._inner

    async def start(
        self: Any, factory: Any, original: Any, words: tuple[Any, ...], options: dict[str, Any], *, shell: bool
    ) -> Any:  # fmt: skip
        listener = port.current
        if listener is None:
            return await original(self, factory, *words, **options)
        command, path = command_of(words, {**_PIPES, **options, "shell": shell}), child_path()
        if not listener.answers:
            exchange: Any = listener.spawn(command)
        else:
            exchange = listener.ask_spawn(command, path)
            if exchange.refusal is not None:
                raise exchange.refusal
            if not exchange.again:
                settings = dict(options)
                args, numbers = stub_of(exchange, settings, command["streams"], exchange.fed)
                for name in ("shell", "executable", "preexec_fn", "close_fds"):
                    settings.pop(name, None)
                try:
                    return await begun(self, factory, exchange, original_exec, args, settings)
                finally:
                    for number in numbers:
                        os.close(number)
            path = exchange.path
        given = options.get("env")
        now = environment_of(listener, given, path)
        options = {**options, "env": now if now is given else dict(now)}
        options["pass_fds"] = (*(options.get("pass_fds") or ()), *listener.lends)
        try:
            transport, protocol = await begun(self, factory, exchange, original, words, options)
        except BaseException as fault:
            if not listener.answers:
                exchange.end(port.how_of(fault), fault)
            raise
        exchange.started(transport.get_pid(), path)
        return transport, protocol

    async def subprocess_exec(self: Any, protocol_factory: Any, program: Any, *args: Any, **options: Any) -> Any:
        return await start(self, protocol_factory, original_exec, (program, *args), options, shell=False)

    async def subprocess_shell(self: Any, protocol_factory: Any, cmd: Any, **options: Any) -> Any:
        return await start(self, protocol_factory, original_shell, (cmd,), options, shell=True)

    for patched in (subprocess_exec, subprocess_shell):
        patched.__qualname__ = f"Loop.{patched.__name__}"
        setattr(loop, patched.__name__, patched)


def install() -> None:
    """Watch them when the program imports uvloop."""
    when_imported("uvloop", _patch)
