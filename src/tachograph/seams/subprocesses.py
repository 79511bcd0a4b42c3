"""The seam of started programs: `subprocess.Popen`, and everything that stands on it.

A started program is one effect: its arguments, what it was fed, what it wrote, how it ended. What it is fed and what it
wrote are handed over where the parent writes and reads it (the pipe's own writes and reads, `communicate`, asyncio's
transport). In a replay a Python child that was recorded itself is run again, watched in the same way; another program
is not started: a stub plays its recorded output and status (`openai` asks `uname -p`, so even a plain SDK needs this).
Whoever listens hears what either is fed, so that other input gets no old answer. A program that its parent ended by a
signal is not over before the parent sends one again.

Ways to start a program that do not pass here are watched by `seams.processes`.
"""

from __future__ import annotations

import io
import os

from tachograph.seams import port
from tachograph.seams.context import starting
from tachograph.seams.imports import when_imported
from tachograph.seams.processes import Lent, child_path, environment_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

# Drain what the program feeds (beside, so that a dialogue does not block), play both streams at once and close each at
# its end (whichever the program reads first must not wait for the other), end as recorded. The streams are named by
# path, since dash knows descriptors of one digit only.
_DRAIN = "{{ {read} <&{spare} >/dev/null 2>&1 & }} {spare}<&0; "
_SCRIPT = "{drain}{timer}{out} 2>&- & exec >&-; {err} >&2; exec 2>&-; wait $!{timed}; {ending}"
# One that its parent ended by a signal keeps its streams and goes on until a signal comes, then ends as it did.
_UNTIL_SIGNALLED = (
    "{drain}trap '{ending}' {numbers}; {out} 2>&- & {err} >&2; while :; do sleep 1 >&- 2>&- & wait $!; done"
)
_SIGNALS = frozenset((1, 2, 3, 10, 12, 15))  # hangup, interrupt, quit, user 1 and 2, terminate


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


class _FedPipe(io.FileIO):
    """The parent's end of a child's input pipe: hands over what the child was fed, and that it was all."""

    def __init__(self, fd: int, exchange: Any) -> None:
        super().__init__(fd, "wb")
        self._exchange, self.whole = exchange, True

    def write(self, data: Any) -> int:
        try:
            count = super().write(data)
        except OSError:  # the child has closed its end: what is missing was never fed
            self.whole = False
            raise
        self._exchange.part(bytes(memoryview(data).cast("B")[:count]))
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self.whole:
                self._exchange.sent()


def _tap_input(process: Any, exchange: Any, size: int) -> None:
    file = process.stdin
    if file is None:
        return
    text = file if isinstance(file, io.TextIOWrapper) else None
    settings: dict[str, Any] = {} if text is None else {
        "encoding": text.encoding, "errors": text.errors, "line_buffering": text.line_buffering, "write_through": True,
    }  # fmt: skip
    binary = text.detach() if text is not None else file
    raw = binary.detach() if isinstance(binary, io.BufferedWriter) else binary
    fed: Any = _FedPipe(os.dup(raw.fileno()), exchange)
    process._tachograph_fed = fed
    raw.close()
    if isinstance(binary, io.BufferedWriter):
        fed = io.BufferedWriter(fed, size) if size > 1 else io.BufferedWriter(fed)
    process.stdin = fed if text is None else io.TextIOWrapper(fed, **settings)


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


def command_of(args: Any, options: dict[str, Any]) -> dict[str, Any]:
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
    return "pipe" if hasattr(stream, "getsockname") else "file"  # older asyncio feeds through a pair of sockets


def stub_of(
    stub: port.Stub, options: dict[str, Any], streams: list[str], fed: int | None = None
) -> tuple[list[str], list[int]]:
    """Return the stub's command and the descriptors it reads from; `options` are changed to what it is started with.

    `fed`: how many bytes it takes from its input before it may close it; None: all.
    """
    numbers = []
    for data in (stub.stdout, stub.stderr):
        fd = os.memfd_create("tachograph-stub", 0) if hasattr(os, "memfd_create") else _unlinked()
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        numbers.append(fd)
    ending = f"exit {stub.status}" if stub.status >= 0 else f"kill -{-stub.status} $$"
    spare = next(number for number in (3, 4, 5) if number not in numbers)
    drain = _DRAIN.format(spare=spare, read="cat" if fed is None else f"head -c {fed}") if streams[0] == "pipe" else ""
    out, err = _played(stub, numbers[0], 1), _played(stub, numbers[1], 2)
    names = {"drain": drain, "timer": "", "timed": "", "out": out, "err": err}
    if stub.steps is not None:
        names["timer"] = f"sleep {stub.steps[1]:.3f} <&- >&- 2>&- & timer=$!; "
        names["timed"] = " $timer"
    script = _SCRIPT.format(**names, ending=ending)
    if stub.until_signalled:  # ended by a signal: all others are ignored
        ending, trapped = (ending, _SIGNALS) if stub.status >= 0 else ("", _SIGNALS - {-stub.status})
        script = _UNTIL_SIGNALLED.format(**names, ending=ending, numbers=" ".join(map(str, sorted(trapped))))
    options["pass_fds"] = (*options.get("pass_fds", ()), *numbers)
    options["shell"], options["executable"], options["close_fds"] = False, None, True
    options["env"] = {"PATH": os.defpath}
    options["cwd"] = None
    options["preexec_fn"] = None
    return ["/bin/sh", "-c", script], numbers


def _played(stub: port.Stub, number: int, stream: int) -> str:
    """Return the shell's words that write what the stub wrote to one stream."""
    steps = [] if stub.steps is None else [step for step in stub.steps[0] if step[0] == stream]
    said, at = [], 0.0
    for _, after, size in steps:
        said.append(f"sleep {max(0.0, after - at):.3f}; head -c {size}; ")
        at = after
    return f"{{ {''.join(said)}cat; }} </dev/fd/{number}" if said else f"cat /dev/fd/{number}"


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
    send_signal = popen.send_signal

    def __init__(self: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
        listener = port.current
        if listener is None:
            start(self, args, *rest, **kwargs)
            return
        options = _named(module, rest, kwargs)
        if not isinstance(args, (str, bytes, os.PathLike)):
            args = list(args)  # it may be a generator, and is read twice
        command, path = command_of(args, options), child_path()
        if listener.answers:
            stub = listener.ask_spawn(command, path)
            if stub.refusal is not None:
                self.returncode, self._child_created = None, False
                raise stub.refusal
            if stub.again:
                _watch(self, listener, stub, args, options, stub.path)
            else:
                _play(self, stub, options, command["streams"])
                self.args = args
            return
        exchange = listener.spawn(command)
        try:
            _watch(self, listener, exchange, args, options, path)
        except BaseException as fault:
            exchange.end(port.how_of(fault), fault)
            raise

    def _watch(self: Any, listener: Any, exchange: Any, args: Any, options: dict[str, Any], path: str) -> None:
        options["env"] = environment_of(listener, options.get("env"), path)
        if listener.lends and options.get("close_fds", True):
            options["pass_fds"] = (*(options.get("pass_fds") or ()), *listener.lends)
        with Lent(listener):
            start(self, args, **options)
        exchange.started(self.pid, path)
        self._tachograph = exchange  # not before: a start that fails has an exit status of its own making
        _tap(self, "stdout", exchange, 1)
        _tap(self, "stderr", exchange, 2)
        _tap_input(self, exchange, options.get("bufsize", -1))

    def _play(self: Any, stub: port.Stub, options: dict[str, Any], streams: list[str]) -> None:
        args, numbers = stub_of(stub, options, streams)
        token = starting.set(True)
        try:
            start(self, args, **options)
        finally:
            starting.reset(token)
            for number in numbers:
                os.close(number)
        self._tachograph = stub
        _tap_input(self, stub, options.get("bufsize", -1))

    def _communicate(self: Any, *args: Any, **kwargs: Any) -> Any:
        # With two pipes it reads and writes the descriptors itself, past our taps; what passed stands in lists and
        # offsets that it leaves behind.
        exchange = self.__dict__.get("_tachograph")
        seen, offset = _lengths(self), self.__dict__.get("_input_offset", 0)
        fed = self.__dict__.get("_tachograph_fed")
        if fed is not None:
            whole, fed.whole = fed.whole, False
        try:
            return communicate(self, *args, **kwargs)
        finally:
            if exchange is not None:
                for file, stream in ((self.stdout, 1), (self.stderr, 2)):
                    parts = getattr(self, "_fileobj2output", {}).get(file)
                    for part in (parts or [])[seen.get(stream, 0) :]:
                        exchange.chunk(part, stream)
            if fed is not None:
                given, now = self.__dict__.get("_input") or b"", self.__dict__.get("_input_offset", 0)
                if now > offset:
                    exchange.part(bytes(given[offset:now]))
                fed.whole = whole and now < len(given)
                if whole and not fed.whole:
                    exchange.sent()

    def _handle_exitstatus(self: Any, *args: Any, **kwargs: Any) -> None:
        ended(self, *args, **kwargs)
        exchange = self.__dict__.get("_tachograph")
        if exchange is not None and self.returncode is not None:
            exchange.exited(self.returncode)

    def signalled(self: Any, sig: int) -> None:
        exchange = self.__dict__.get("_tachograph")
        if exchange is not None and sig and self.returncode is None:
            exchange.signalled()
        send_signal(self, sig)

    __init__.__wrapped__ = start  # type: ignore[attr-defined]
    popen.__init__, popen._communicate, popen._handle_exitstatus = __init__, _communicate, _handle_exitstatus
    popen.send_signal = signalled


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


def _patch_asyncio_input(module: ModuleType) -> None:
    transport = module._UnixWritePipeTransport
    write, close = transport.write, transport.write_eof

    def exchange_of(self: Any) -> Any:
        return getattr(getattr(getattr(self._protocol, "proc", None), "_proc", None), "_tachograph", None)

    def write_watched(self: Any, data: Any) -> None:
        exchange = exchange_of(self)
        if exchange is not None and data:
            exchange.part(bytes(data))
        write(self, data)

    def write_eof_watched(self: Any) -> None:
        exchange = exchange_of(self)
        if exchange is not None and not self._closing:
            exchange.sent()
        close(self)

    transport.write, transport.write_eof = write_watched, write_eof_watched


def install() -> None:
    """Watch `subprocess` and asyncio's transports, each when the program imports it."""
    when_imported("subprocess", _patch)
    when_imported("asyncio.unix_events", _patch_asyncio_input)
    when_imported("asyncio.base_subprocess", _patch_asyncio)
