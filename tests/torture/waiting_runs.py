"""Runs that wait in a spool, written by the recorder itself in this process: thousands in the time of one program.

A run has the file of `tacho run`, one per process, and effects that a reader can number (`kept.SealedRun.answers`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from time import monotonic_ns, time_ns

from tachograph.capture.facts import new_run_id
from tachograph.capture.recorder import Recorder
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.seams import context
from tachograph.store.location import StoreFolder
from tachograph.store.spool import Spool

TAG_KEY = bytes(range(32))


def answer_of(number: int) -> bytes:
    """What came back for a number."""
    return f"answer {number} ".encode() * (1 + number * 37 % 401)


def wait_in(
    folder: StoreFolder, *, label: str, processes: Sequence[Sequence[int]] = ((1, 2, 3),), per_decision: int = 0,
    run_id: str | None = None, ended: bool = True, run_file: bool = True,
) -> str:  # fmt: skip
    """Leave a run in the spool: a file per process, with these numbers as effects. Returns the run's id.

    `per_decision` effects go into a decision each; 0 opens none. `ended`: the last frames are there.
    """
    run_id = run_id or new_run_id()
    spool = None
    if run_file:
        spool = Spool(folder.spool, f"{run_id}.{os.getpid()}.run", public=folder.intake_public_key)
        facts = {
            "argv": ["python", "agent.py", json.dumps({"label": label})], "cwd": "/", "umask": 18, "hashSeed": "0",
            "agent": None, "streams": {}, "files": {}, "startedAt": time_ns(), "monotonicNs": monotonic_ns(),
        }  # fmt: skip
        spool.append(_frame(fr.RUN, 0, values.encode(facts)))
    for numbers in processes:
        _process(folder, run_id, numbers, per_decision, ended=ended)
    if spool is not None:
        spool.append(_frame(fr.STREAM, 1, b"done\n"))
        if ended:
            spool.append(_frame(fr.ENDED, 1, values.encode({"exitCode": 0, "signal": None})))
        spool.close()
    return run_id


def _process(folder: StoreFolder, run_id: str, numbers: Sequence[int], per_decision: int, *, ended: bool) -> None:
    recorder = Recorder(
        folder.spool, run_id=run_id, public=folder.intake_public_key, tag_key=TAG_KEY, facts={"argv": ["agent.py"]}
    )
    places = recorder._places  # of this recorder: the numbers of a place belong to one file
    for at in range(0, len(numbers), per_decision or len(numbers) or 1):
        some = numbers[at : at + (per_decision or len(numbers))]
        opened = None
        if per_decision:
            decision, _ = recorder.open({"agent": "waiting", "user": f"u-{at}", "session": "s", "request": at})
            opened = context.decision.set(decision)
        for number in some:
            _effect(recorder, number)
        if opened is not None:
            recorder.tell(fr.CLOSE, context.decision.get(), {})
            context.decision.reset(opened)
    for place in places:
        place.number = 0
    if ended:
        recorder.finish()
    else:
        recorder._spool.close()


def _effect(recorder: Recorder, number: int) -> None:
    body = json.dumps({"number": number, "said": f"question {number} " * (number % 211)}).encode()
    call = recorder.call("httpx", "POST", "http://127.0.0.1:1/", [(b"x-number", b"%d" % number)], body)
    call.head(200, [(b"content-type", b"text/plain")], b"1.1", b"OK")
    call.chunk(answer_of(number))
    call.end("eof")


def _frame(kind: int, flags: int, payload: bytes) -> bytes:
    return fr.Frame(kind, flags, 0, 0, 0, 0, monotonic_ns(), b"", payload).written()
