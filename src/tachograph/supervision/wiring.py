"""What stands between our streams and the program's: pipes, terminals, and what moves bytes through them.

Guarantees:
- Each stream of the program is of the kind that it would be without us: a terminal where it is one, a pipe where bytes
  come as they come, the very file or null device for stdin, nothing where it is closed. Output into a file or the null
  device goes through a pipe, because it has to be seen.
- `live` connects the program's streams to ours; `replayed` connects them to what was recorded, and its output to the
  watcher alone.
- Streams of ours that lead to the same place share one outlet: what was written first is passed on first.
"""

from __future__ import annotations

import fcntl
import os
import termios
from typing import TYPE_CHECKING

from tachograph.supervision.echo import Echo
from tachograph.supervision.inflow import Inflow, from_pipe, rest_of_file
from tachograph.supervision.outflow import Outflow, Outlet
from tachograph.supervision.script import ScriptedKeys, ScriptedPipe, Sleep, as_file
from tachograph.supervision.streams import STREAMS, StreamKinds, StreamName, window_size
from tachograph.supervision.terminal import (
    KEYS,
    STDOUT,
    ProgramTerminals,
    RealTerminal,
    adds_returns,
    is_controlling,
    open_again,
    open_controlling,
)
from tachograph.supervision.weave import Weave, same_place, weave

if TYPE_CHECKING:
    from collections.abc import Callable

    from tachograph.supervision.readiness import Readiness
    from tachograph.supervision.watching import Guarded


class Wiring:
    """The descriptors of one supervised program, and what serves them.

    `files` become its 0, 1 and 2. `terminals` are its pseudo-terminals, None if it has none; `controls` is the end of
    the one that controls its session, None where it stays in ours. `real` is the terminal that we read keys from.
    """

    def __init__(self, kinds: StreamKinds, watcher: Guarded, readiness: Readiness) -> None:
        self.kinds = kinds
        self.files: list[int | None] = [None, None, None]
        self.terminals: ProgramTerminals | None = None
        self.real: RealTerminal | None = None
        self.controls: int | None = None
        self.outflows: list[Outflow] = []
        self.outlets: dict[int, Outlet] = {}
        self.weave: Weave | None = None
        self.inflows: list[Inflow] = []
        self.echo = Echo()
        self.watcher = watcher
        self.readiness = readiness
        self._ours: list[int] = []  # the program's ends, open here until it has them

    @property
    def modes_left(self) -> list[object] | None:
        """The modes in which the program left its terminal, None where they are those that it found."""
        if self.terminals is None:
            return None
        self.terminals.agree()
        return None if self.terminals.agreed == self.terminals.first else self.terminals.agreed

    def outlet(self, number: int) -> Outlet:
        """The outlet of our own stream `number`."""
        kind = self.kinds.of(STREAMS[number])
        # Two descriptions of one file have an offset each, and without us the program would use each.
        for other, outlet in self.outlets.items():
            if other == number or (kind in ("terminal", "pipe") and same_place(other, number)):
                return outlet
        self.outlets[number] = Outlet(number, self.readiness)
        return self.outlets[number]

    def add_outflow(self, fd: int, name: StreamName, outlet: Outlet | None, *, device: str | None = None) -> None:
        """Serve what comes out of `fd`."""
        self.outflows.append(
            Outflow(
                fd,
                name=name,
                device=device,
                outlet=outlet,
                real=self.real,
                undo_returns=device is not None and self.terminals is not None and adds_returns(self.terminals.first),
                echo=self.echo if device == KEYS else None,
                watcher=self.watcher,
                readiness=self.readiness,
            )
        )

    def lend(self, stream: int, fd: int) -> None:
        """Make `fd` the program's descriptor number `stream`, and close it here once the program has it."""
        self.files[stream] = fd
        self._ours.append(fd)

    def pipe_in(self) -> int:
        """Give the program a pipe as stdin; returns the writing end."""
        reading, sink = os.pipe()
        self.lend(0, reading)
        return sink

    def add_terminals(self, *, modes: list[object] | None, size: tuple[int, int], controlling: bool) -> None:
        """Give the program a terminal for each of its streams that is one, and one to control its session."""
        device_of = {"stdin": KEYS, "stdout": STDOUT, "stderr": KEYS}
        devices = {device_of[stream] for stream in self.kinds.terminals} | ({KEYS} if controlling else set())
        self.terminals = ProgramTerminals(tuple(sorted(devices)), modes=modes)
        if size != (0, 0):
            self.terminals.resize(size)
        for stream in self.kinds.terminals:
            self.files[STREAMS.index(stream)] = self.terminals.slaves[device_of[stream]]
        if controlling:
            self.controls = self.terminals.slaves[KEYS]

    def add_outputs(self, outlet: Callable[[int], Outlet | None]) -> None:
        """Serve what the program writes, and what its line discipline echoes."""
        masters = {} if self.terminals is None else self.terminals.masters
        for number, name in ((1, STREAMS[1]), (2, STREAMS[2])):
            device = KEYS if number == 2 else STDOUT
            if self.kinds.of(name) == "terminal":
                self.add_outflow(masters[device], name, outlet(number), device=device)
            elif self.kinds.of(name) != "closed":
                end, writing = os.pipe()
                self.lend(number, writing)
                self.add_outflow(end, name, outlet(number))
        if KEYS in masters and self.kinds.stderr != "terminal":
            self.add_outflow(masters[KEYS], "stdin", outlet(self.first_terminal()), device=KEYS)
        self._weave_outputs()

    def _weave_outputs(self) -> None:
        """Find the outflows that are shown in one place, and keep their order."""
        for outlet in self.outlets.values():
            flows = [flow for flow in self.outflows if flow.outlet is outlet]
            if len(flows) > 1 and self.weave is None:
                devices = [flow.device for flow in flows]
                ends = [self._program_end(flow) for flow in flows]
                self.weave = weave(flows, ends, terminal=devices.index(KEYS) if KEYS in devices else -1)

    def _program_end(self, outflow: Outflow) -> int:
        if self.terminals is not None and outflow.device is not None:
            return self.terminals.slaves[outflow.device]
        end = self.files[STREAMS.index(outflow.name)]
        assert end is not None
        return end

    def ends_alone(self, outflow: Outflow) -> bool:
        """Whether the end of `outflow` is the end of a pipe of ours that no other stream of the program writes to."""
        outlet = outflow.outlet
        sharing = [other for other in self.outflows if other.outlet is outlet]
        return outlet is not None and not outlet.broken and self.kinds.of(outflow.name) == "pipe" and len(sharing) == 1

    def first_terminal(self) -> int:
        """The number of the first of our streams that is a terminal."""
        return STREAMS.index(self.kinds.terminals[0])

    def hand_over(self) -> None:
        """The program has its ends: close ours of them."""
        for fd in self._ours:
            os.close(fd)
        self._ours.clear()
        if self.terminals is not None:
            self.terminals.hand_over()

    def close(self) -> None:
        """Close all that is open still."""
        self.hand_over()
        for inflow in self.inflows:
            inflow.finish()
        for outflow in self.outflows:
            outflow.close()
        if self.weave is not None:
            self.weave.close()
        for outlet in self.outlets.values():
            outlet.close()
        if self.real is not None:
            os.close(self.real.fd)


def live(kinds: StreamKinds, watcher: Guarded, readiness: Readiness) -> Wiring:
    """Wire the program to our own streams; `job.Job` adds the keys of the real terminal."""
    wiring = Wiring(kinds, watcher, readiness)
    if kinds.terminals:
        number = wiring.first_terminal()
        wiring.real = _real_terminal(kinds)
        wiring.add_terminals(
            modes=termios.tcgetattr(number),
            size=window_size(number),
            controlling=wiring.real is not None and wiring.real.controlling,
        )
    wiring.add_outputs(wiring.outlet)
    if kinds.stdin in ("file", "null"):
        wiring.files[0] = 0
        for piece in rest_of_file(0) if kinds.stdin == "file" else ():
            watcher.read(piece)
    elif kinds.stdin == "pipe":
        wiring.inflows.append(from_pipe(0, wiring.pipe_in(), watcher=watcher, readiness=readiness))
    return wiring


def _real_terminal(kinds: StreamKinds) -> RealTerminal | None:
    """The terminal whose keys are for the program: the one that controls our session, or else our stdin."""
    if any(is_controlling(STREAMS.index(stream)) for stream in kinds.terminals):
        controlling = open_controlling()
        if controlling is not None:
            return controlling
    if kinds.stdin != "terminal":
        return None
    own = open_again(0, os.O_RDWR)
    return RealTerminal(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3) if own is None else own, controlling=False)


def replayed(
    kinds: StreamKinds, watcher: Guarded, readiness: Readiness, *, stdin_bytes: bytes | None, sleep: Sleep
) -> Wiring:
    """Wire the program to a recorded stdin; what it writes goes to the watcher alone."""
    wiring = Wiring(kinds, watcher, readiness)
    if kinds.terminals:
        wiring.add_terminals(modes=None, size=(kinds.columns, kinds.rows), controlling=True)
    wiring.add_outputs(lambda _: None)
    content = stdin_bytes or b""
    if kinds.stdin == "file":
        wiring.lend(0, as_file(content))
    elif kinds.stdin == "null":
        wiring.lend(0, os.open(os.devnull, os.O_RDONLY))
    elif kinds.stdin == "pipe":
        wiring.inflows.append(ScriptedPipe(content, wiring.pipe_in(), readiness=readiness))
    elif kinds.stdin == "terminal" and wiring.terminals is not None:
        wiring.inflows.append(ScriptedKeys(content, wiring.terminals, echo=wiring.echo, sleeps=sleep))
    return wiring
