"""The seam of started programs: `subprocess.Popen`, and everything that stands on it.

A started program is one effect: its arguments, what it was fed, what it wrote, how it ended. What it wrote is handed
over where the parent reads it (the pipe's own reads, `communicate`, asyncio's transport). In a replay another program
is not started: a stub plays its recorded output and status (`openai` asks `uname -p`, so even a plain SDK needs this).

Ways to start a program that do not pass here (`os.system`, `posix_spawn`, `exec`) are noted by `seams.hooks`.
"""

from __future__ import annotations

import io
import os
from _contextvars import ContextVar

from tachograph.seams import port
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

starting: ContextVar[bool] = ContextVar("tachograph_starting", default=False)

# Drain what the program feeds (beside, so that a dialogue does not block), play both streams at once and close each at
# its end (whichever the program reads first must not wait for the other), end as recorded. The streams are named by
# path, since dash knows descriptors of one digit only.
_DRAIN = "{{ cat <&{spare} >/dev/null 2>&1 & }} {spare}<&0; "
_SCRIPT = "{drain}cat /dev/fd/{out} 2>&- & exec >&-; cat /dev/fd/{err} >&2; exec 2>&-; wait $!; {ending}"


class _TappedPipe(io.FileIO):
    """The parent's end of a child's output pipe: hands over what is read before the program gets it."""

    def __init__(self, fd: int, exchange: port.Exchange, stream: int) -> None:
        super().__init__(fd, "rb")
        self._exchange, self._stream = exchange, stream

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        if count:
            self._exchange.chunk(bytes(memoryview(buffer)[:count]), self._stream)
        return count

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if data:
            self._exchange.chunk(data, self._stream)
        return data

    def readall(self) -> bytes:
        data = super().readall()
        if data:
            self._exchange.chunk(data, self._stream)
        return data


def _tap(process: Any, name: str, exchange: port.Exchange, stream: int) -> None:
    file = getattr(process, name)
    if file is None:
        return
    text = file if isinstance(file, io.TextIOWrapper) else None
    settings: dict[str, Any] = {} if text is None else {"encoding": text.encoding, "errors": text.errors}
    binary = text.detach() if text is not None else file
    raw = binary.detach() if isinstance(binary, io.BufferedReader) else binary
    tapped: Any = _TappedPipe(os.dup(raw.fileno()), exchange, stream)
    raw.close()
    if isinstance(binary, io.BufferedReader):
        tapped = io.BufferedReader(tapped)
    if text is not None:
        tapped = io.TextIOWrapper(tapped, **settings)
    setattr(process, name, tapped)


def _command(args: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What identifies a started program: arguments, folder, shell, which of its streams are pipes."""
    listed = [args] if isinstance(args, (str, bytes, os.PathLike)) else args
    cwd = options.get("cwd")
    return {
        "args": [os.fsdecode(part) for part in listed],
        "shell": bool(options.get("shell")),
        "cwd": None if cwd is None else os.fsdecode(cwd),
        "executable": None if options.get("executable") is None else os.fsdecode(options["executable"]),
        "streams": [_kind(options.get(name)) for name in ("stdin", "stdout", "stderr")],
    }


def _kind(stream: Any) -> str:
    if stream is None:
        return "inherited"
    if isinstance(stream, int):
        return {-1: "pipe", -2: "stdout", -3: "null"}.get(stream, "descriptor")
    return "pipe" if hasattr(stream, "getsockname") else "file"  # asyncio makes the pipe to stdin of a socket pair


def _stub(stub: port.Stub, options: dict[str, Any], streams: list[str]) -> tuple[list[str], list[int]]:
    """Return the stub's command and the descriptors it reads from."""
    numbers = []
    for data in (stub.stdout, stub.stderr):
        fd = os.memfd_create("tachograph-stub", 0) if hasattr(os, "memfd_create") else _unlinked()
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        numbers.append(fd)
    ending = f"exit {stub.status}" if stub.status >= 0 else f"kill -{-stub.status} $$"
    spare = next(number for number in (3, 4, 5) if number not in numbers)
    drain = _DRAIN.format(spare=spare) if streams[0] == "pipe" else ""
    script = _SCRIPT.format(drain=drain, out=numbers[0], err=numbers[1], ending=ending)
    options["pass_fds"] = (*options.get("pass_fds", ()), *numbers)
    options["shell"], options["executable"], options["close_fds"] = False, None, True
    options["env"] = {"PATH": os.defpath}
    options["cwd"] = None
    options["preexec_fn"] = None
    return ["/bin/sh", "-c", script], numbers


def _unlinked() -> int:
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _named(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return Popen's options by name, however they were given."""
    code = module.Popen.__init__.__wrapped__.__code__
    names = code.co_varnames[2 : code.co_argcount]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _patch(module: ModuleType) -> None:
    popen = module.Popen
    start, communicate, ended = popen.__init__, popen._communicate, popen._handle_exitstatus

    def __init__(self: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
        listener = port.current
        if listener is None:
            start(self, args, *rest, **kwargs)
            return
        options = _named(module, rest, kwargs)
        if not isinstance(args, (str, bytes, os.PathLike)):
            args = list(args)  # it may be a generator, and is read twice
        command = _command(args, options)
        if listener.answers:
            stub = listener.ask_spawn(command)
            if stub.refusal is not None:
                self.returncode, self._child_created = None, False
                raise stub.refusal
            _play(self, stub, options, command["streams"])
            self.args = args
            return
        exchange = listener.spawn(command)
        token = starting.set(True)
        try:
            start(self, args, **options)
        except BaseException as fault:
            exchange.end(port.how_of(fault), fault)
            raise
        finally:
            starting.reset(token)
        self._tachograph = exchange  # not before: a start that fails has an exit status of its own making
        _tap(self, "stdout", exchange, 1)
        _tap(self, "stderr", exchange, 2)

    def _play(self: Any, stub: port.Stub, options: dict[str, Any], streams: list[str]) -> None:
        args, numbers = _stub(stub, options, streams)
        token = starting.set(True)
        try:
            start(self, args, **options)
        finally:
            starting.reset(token)
            for number in numbers:
                os.close(number)

    def _communicate(self: Any, *args: Any, **kwargs: Any) -> Any:
        # With two pipes it reads the descriptors itself, past our taps, into lists that it leaves behind.
        exchange = self.__dict__.get("_tachograph")
        seen = _lengths(self)
        try:
            return communicate(self, *args, **kwargs)
        finally:
            if exchange is not None:
                for file, stream in ((self.stdout, 1), (self.stderr, 2)):
                    parts = getattr(self, "_fileobj2output", {}).get(file)
                    for part in (parts or [])[seen.get(stream, 0) :]:
                        exchange.chunk(part, stream)

    def _handle_exitstatus(self: Any, *args: Any, **kwargs: Any) -> None:
        ended(self, *args, **kwargs)
        exchange = self.__dict__.get("_tachograph")
        if exchange is not None and self.returncode is not None:
            exchange.exited(self.returncode)

    __init__.__wrapped__ = start  # type: ignore[attr-defined]
    popen.__init__, popen._communicate, popen._handle_exitstatus = __init__, _communicate, _handle_exitstatus


def _lengths(process: Any) -> dict[int, int]:
    outputs = getattr(process, "_fileobj2output", {})
    return {stream: len(outputs.get(file, ())) for file, stream in ((process.stdout, 1), (process.stderr, 2)) if file}


def _patch_asyncio(module: ModuleType) -> None:
    transport = module.BaseSubprocessTransport
    received, exited = transport._pipe_data_received, transport._process_exited

    def _pipe_data_received(self: Any, fd: int, data: bytes) -> None:
        exchange = getattr(self._proc, "_tachograph", None)
        if exchange is not None:
            exchange.chunk(bytes(data), fd)
        received(self, fd, data)

    def _process_exited(self: Any, returncode: int) -> None:
        exchange = getattr(self._proc, "_tachograph", None)
        if exchange is not None:
            exchange.exited(returncode)
        exited(self, returncode)

    transport._pipe_data_received, transport._process_exited = _pipe_data_received, _process_exited


def install() -> None:
    """Watch `subprocess` and asyncio's transport, each when the program imports it."""
    when_imported("subprocess", _patch)
    when_imported("asyncio.base_subprocess", _patch_asyncio)
