"""Start a program under capture: what `tacho run` does until the program has ended.

The spool's first frame says what was started: argv, environment, folder, umask, stdin, hash seed. Values of credential
variables are never written, only their names and shapes. The program's standard streams pass through
`supervision.supervisor`; what it wrote is in the spool before it is forwarded. If the store cannot be written, the
program runs all the same, with one line on stderr (or does not start, where capture is required). Cheap to import.
"""

from __future__ import annotations

import os
import sys
from time import monotonic_ns, time_ns

from tachograph.capture.facts import entry_files, environment_facts, new_run_id, newest_checkpoint, read_key
from tachograph.errors import Refused
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.seams import injection
from tachograph.store.spool import Spool, first_gap
from tachograph.supervision import supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tachograph.capture.looking import Looking
    from tachograph.store.location import StoreFolder
    from tachograph.supervision.supervisor import Ending, StreamKinds

RECORD = "tachograph.capture.install"
STDIN, STDOUT, STDERR = 0, 1, 2


class SpoolWatcher:
    """Keeps what passes the program's standard streams, before it is forwarded; has `argv` looked around meanwhile."""

    def __init__(self, spool: Spool, argv: list[str]) -> None:
        self._spool = spool
        self._argv = argv
        self._looking: Looking | None = None

    def _write(self, kind: int, flags: int, payload: bytes) -> None:
        self._spool.append(fr.Frame(kind, flags, 0, 0, 0, 0, monotonic_ns(), b"", payload).written())

    def wrote(self, stream: str, data: bytes) -> None:
        """The program wrote this."""
        self._write(fr.STREAM, STDOUT if stream == "stdout" else STDERR, data)

    def read(self, data: bytes) -> None:
        """The program is given this on stdin."""
        self._write(fr.STREAM, STDIN, data)

    def started(self, pid: int) -> None:
        """The program runs."""
        self._write(fr.NOTE, 0, values.encode({"what": "started", "detail": str(pid)}))
        from tachograph.capture.looking import Looking  # here, since it costs 20 ms: the program does not wait for them

        self._looking = Looking(self._argv, os.getcwd(), os.environ, self._found)
        self._looking.start()

    def _found(self, around: dict[str, Any]) -> None:
        self._write(fr.AROUND, 0, values.encode(around))

    def ended(self, ending: Ending) -> None:
        """The program has ended: the spool's last frame."""
        if self._looking is not None:
            self._looking.finish()
        said = {"exitCode": ending.exit_code, "signal": ending.signal}
        self._write(fr.ENDED, 1, values.encode(said))
        self._spool.close()


def launch(argv: list[str], *, store: StoreFolder, tag_file: str, agent: str | None, require: bool) -> Ending:
    """Run `argv` under capture in `store` and return how it ended. Raises Refused if capture is required and fails."""
    run_id, kinds = new_run_id(), supervisor.look()
    supervisor.plug(kinds)  # else the spool would take the number of a standard stream that is closed

    def failed(fault: BaseException) -> None:
        if not require and first_gap(store.spool, run_id) in (None, spool.path):  # else a recorder has said it
            _say(fault)

    environment = dict(os.environ)
    seed = environment.get("PYTHONHASHSEED")
    if seed is None or not seed.isdigit():
        seed = str(int.from_bytes(os.urandom(4), "little"))  # PYTHONHASHSEED takes 0..2^32-1
    try:
        spool = Spool(store.spool, f"{run_id}.{os.getpid()}.run", public=store.intake_public_key, on_failure=failed)
    except OSError as fault:
        if require:
            raise Refused(
                f"the spool cannot be written ({fault}) and capture is required", reason="no_capture"
            ) from fault
        _say(fault)
        return launch_unrecorded(argv)
    watcher = SpoolWatcher(spool, argv)
    facts = run_facts(argv, kinds=kinds, seed=seed, agent=agent, tag_key=read_key(tag_file))
    facts["after"] = newest_checkpoint(store.spool)
    spool.append(fr.Frame(fr.RUN, 0, 0, 0, 0, 0, monotonic_ns(), b"", values.encode(facts)).written())
    settings = {
        "RUN": run_id, "SPOOL": store.spool, "PUBLIC": store.intake_public_key.hex(), "TAGFILE": tag_file,
        "LIBS": injection.libraries(), **({"REQUIRE": "1"} if require else {}),
    }  # fmt: skip
    child = injection.inject({**environment, "PYTHONHASHSEED": seed}, entry=RECORD, settings=settings)
    on_tick = (lambda: "capture is required and failed" if spool.failed else None) if require else None
    ending = supervisor.supervise(argv, env=child, watcher=watcher, kinds=kinds, on_tick=on_tick)
    watcher.ended(ending)
    if ending.ended_by is not None:
        raise Refused(f"{ending.ended_by}: the program was stopped, {run_id} says where it ends", reason="no_capture")
    return ending


def launch_unrecorded(argv: list[str]) -> Ending:
    """Run `argv` where no store can be written: the same program, the same streams, no record."""
    return supervisor.supervise(argv, env=dict(os.environ), watcher=_Nobody(), kinds=supervisor.look())


def run_facts(
    argv: list[str], *, kinds: StreamKinds, seed: str, agent: str | None, tag_key: bytes
) -> dict[str, Any]:  # fmt: skip
    """What a run says of itself in the spool's first frame."""
    umask = os.umask(0)
    os.umask(umask)
    cwd = os.getcwd()
    return {
        "argv": argv, "cwd": cwd, "umask": umask, "hashSeed": seed, "agent": agent,
        "streams": {"stdin": kinds.stdin, "stdout": kinds.stdout, "stderr": kinds.stderr},
        "columns": kinds.columns, "rows": kinds.rows, "files": entry_files(argv, cwd),
        "startedAt": time_ns(), "monotonicNs": monotonic_ns(), **environment_facts(os.environ, tag_key=tag_key),
    }  # fmt: skip


def _say(fault: BaseException) -> None:
    if not os.environ.get("TACHO_QUIET"):
        sys.stderr.write(f"tachograph: this run is not recorded further ({fault}); the program goes on\n")


class _Nobody:
    def wrote(self, stream: str, data: bytes) -> None:
        """Nobody keeps it."""

    def read(self, data: bytes) -> None:
        """Nobody keeps it."""

    def started(self, pid: int) -> None:
        """Nobody keeps it."""
