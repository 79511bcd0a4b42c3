"""Runs that wait in a spool, written frame by frame: thousands in the time of one program.

A run has the file of `tacho run`, one per process, and calls that a reader can number (`kept.SealedRun.answers`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import count
from time import monotonic_ns, time_ns
from typing import Any

from tachograph.capture.facts import new_run_id
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.model.identity import mint
from tachograph.store.location import StoreFolder
from tachograph.store.spool import Spool

_serial = count()


def answer_of(number: int) -> bytes:
    """What came back for a number."""
    return f"answer {number} ".encode() * (1 + number * 37 % 401)


def wait_in(
    folder: StoreFolder, *, label: str, processes: Sequence[Sequence[int]] = ((1, 2, 3),), per_decision: int = 0,
    run_id: str | None = None, ended: bool = True, run_file: bool = True,
) -> str:  # fmt: skip
    """Leave a run in the spool: a file per process, with these numbers as calls. Returns the run's id.

    `per_decision` calls go into a decision each; 0 opens none. `ended`: the last frames are there.
    """
    run_id = run_id or new_run_id()
    starter = None
    if run_file:
        starter = _File(folder, f"{run_id}.{os.getpid()}.run")
        argv = ["python", "agent.py", json.dumps({"label": label})]
        starter.write(fr.RUN, _facts(argv=argv, cwd="/", umask=18, hashSeed="0", agent=None, streams={}, files={}))
    for numbers in processes:
        _process(_File(folder, f"{run_id}.{os.getpid()}.{next(_serial):08x}"), numbers, per_decision, ended=ended)
    if starter is not None:
        starter.write(fr.STREAM, b"done\n", flags=1)
        if ended:
            starter.write(fr.ENDED, values.encode({"exitCode": 0, "signal": None}), flags=1)
        starter.close()
    return run_id


class _File(Spool):
    """A process's spool file."""

    __slots__ = ()

    def __init__(self, folder: StoreFolder, name: str) -> None:
        super().__init__(folder.spool, name, public=folder.intake_public_key)

    def write(
        self, kind: int, payload: bytes, *, flags: int = 0, decision: int = 0, effect: int = 0, path: int = 0
    ) -> None:
        """One frame, now."""
        self.append(fr.Frame(kind, flags, decision, effect, path, 0, monotonic_ns(), b"", payload).written())


def _facts(**more: Any) -> bytes:
    return values.encode({**more, "startedAt": time_ns(), "monotonicNs": monotonic_ns()})


def _process(file: _File, numbers: Sequence[int], per_decision: int, *, ended: bool) -> None:
    file.write(fr.PROCESS, _facts(argv=["agent.py"], pid=os.getpid(), path="0"))
    file.write(fr.PATH, b"0", path=1)
    for effect, number in enumerate(numbers, 1):
        decision = 1 + (effect - 1) // per_decision if per_decision else 0
        if decision and effect % per_decision == 1 % per_decision:
            minted = mint("dec", at_ms=time_ns() // 1_000_000, chance=os.urandom(10))
            opened = {"agent": "waiting", "user": f"u-{decision}", "session": "s", "request": number, "id": minted}
            file.write(fr.OPEN, values.encode(opened), decision=decision, path=1)
        _call(file, number, effect, decision)
        if decision and (effect % per_decision == 0 or effect == len(numbers)):
            file.write(fr.CLOSE, values.encode({}), decision=decision, path=1)
    if ended:
        file.write(fr.ENDED, values.encode({"files": {}}))
    file.close()


def _call(file: _File, number: int, effect: int, decision: int) -> None:
    body = json.dumps({"number": number, "said": f"question {number} " * (number % 211)}).encode()
    headers = fr.pack_headers([(b"x-number", b"%d" % number)])
    head = fr.fields(b"200", b"1.1", b"OK", fr.pack_headers([(b"content-type", b"text/plain")]), b"")
    asked = fr.fields(b"httpx", b"POST", b"http://127.0.0.1:1/", headers, b"") + body
    for kind, payload in (
        (fr.CALL, asked), (fr.HEAD, head), (fr.CHUNK, answer_of(number)), (fr.END, fr.fields(b"eof", b"")),
    ):  # fmt: skip
        file.write(kind, payload, decision=decision, effect=effect, path=1)
