"""What a store holds, read from its journal and segments alone, and what must be true of it whatever was killed.

- No decision and no run stands in the journal twice, no place is referred to twice, no effect of a run has two numbers.
- Every acknowledged effect is there, with the answer that the program got.
- What a program wrote and somebody received is there too.
- Taking in once more changes no byte.
- Every record is signed, numbered without a gap, a leaf of the log, and under its checkpoint, here and in the anchor.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from tachograph.formats import frame as fr
from tachograph.formats.effect_log import EffectLog, read_effect_log
from tachograph.intake import signed
from tachograph.intake.anchor import Anchor
from tachograph.intake.reading import plainly
from tachograph.intake.sealing import BATCH, Sealer
from tachograph.intake.vouching import origins
from tachograph.library import Store
from tachograph.model.effect import EXTERNAL, HTTP, SLEEP, TOOL, Effect
from tachograph.signing.log import TileLog
from tachograph.signing.note import Checkpoint
from tachograph.store.disk import DISK, Disk
from tachograph.store.entry import CAPTURE, RUN, STATEMENT, Entry
from tachograph.store.journal import Journal
from tachograph.store.keytable import KeyTable
from tachograph.store.location import StoreFolder, open_store
from tachograph.store.segments import ContentStore


@dataclass
class SealedRun:
    """Everything that the journal has of one run."""

    entries: list[Entry]
    logs: list[bytes]

    @cached_property
    def log(self) -> EffectLog:
        """Its logs, merged."""
        return read_effect_log(self.logs)

    @property
    def argv(self) -> list[str]:
        """What was started; empty where the run was killed before it could say."""
        return [str(word) for word in self.log.first(fr.RUN).get("argv", ())]

    @property
    def ended(self) -> dict[str, Any] | None:
        """How `tacho run` saw it end."""
        return next((fact.said for fact in self.log.of(fr.ENDED) if fact.flags == 1), None)

    @property
    def tails(self) -> list[str]:
        """Which processes' last frames are missing."""
        return [tail for about in self.log.about for tail in about["tails"]]

    @property
    def damage(self) -> list[str]:
        """What was lost."""
        return [word for about in self.log.about for word in about["damage"]]

    @property
    def stdout(self) -> bytes:
        """What it wrote."""
        return self.log.streams[1]

    @cached_property
    def answers(self) -> dict[int, list[str]]:
        """The digests of what came of each of the program's numbers: one, if it is there once."""
        found: dict[int, list[str]] = {}
        for effect in self.log.effects:
            if effect.kind == SLEEP:
                continue
            number, got = _number_and_answer(effect)
            found.setdefault(number, []).append(sha256(got).hexdigest())
        return found


def _number_and_answer(effect: Effect) -> tuple[int, bytes]:
    if effect.kind == HTTP:
        return int(json.loads(effect.body)["number"]), effect.answer
    if effect.kind == TOOL:
        return int(plainly(effect.inputs)["number"]), str(plainly(effect.value)).encode() if effect.value else b""
    assert effect.kind == EXTERNAL, effect.kind
    return int(effect.name.partition("-")[2]), str(plainly(effect.value)).encode() if effect.value else b""


class Kept:
    """A store to look into. Its keys are where this process's environment says."""

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.environ = environ
        self.folder: StoreFolder = open_store(str(path), environ=environ)

    def take_in(self, *, disk: Disk = DISK, batch: int = BATCH) -> list[str]:
        """Seal what waits, in this process."""
        with Sealer(self.folder, environ=self.environ, disk=disk, batch=batch) as sealer:
            return sealer.take_in()

    def entries(self) -> list[Entry]:
        """The journal's entries, in order, each checked."""
        journal = Journal(self.folder.journal)
        try:
            return [record.entry for record in journal.records()]
        finally:
            journal.close()

    def runs(self) -> dict[str, SealedRun]:
        """Every run, by its id."""
        keys = KeyTable(self.folder.path, self.folder.keyring(self.environ))
        content = ContentStore(self.folder.segments, keys)
        found: dict[str, SealedRun] = {}
        try:
            for entry in self.entries():
                if entry.kind == STATEMENT:
                    continue
                run = found.setdefault(entry.run, SealedRun([], []))
                run.entries.append(entry)
                run.logs += [content.read(place) for place in entry.places]
        finally:
            content.close()
            keys.close()
        return found

    def sealed_once(self) -> None:
        """Nothing stands in the journal twice."""
        entries = self.entries()
        assert twice(entry.decision for entry in entries) == {}
        assert twice(place for entry in entries for place in entry.places) == {}
        for run_id, run in self.runs().items():
            assert {n: digests for n, digests in run.answers.items() if len(digests) > 1} == {}, run_id
            numbers = [effect.index for effect in run.log.effects]
            assert twice(numbers) == {}, run_id
            whole = [_says_that_its_run_is_whole(entry) for entry in run.entries]
            assert not any(whole[:-1]), run_id  # nothing follows it

    def vouched_for(self) -> None:
        """All that is sealed is signed, numbered, logged, under the checkpoint, anchored; `verify` finds no fault."""
        entries = self.entries()
        assert all(entry.signature and entry.payload for entry in entries)
        assert [entry.leaf for entry in entries] == list(range(len(entries)))
        assert [signed.type_of(entry) for entry in entries[:2]] == ["key", "key"]
        (origin,) = origins(self.folder).values()
        log = TileLog(self.folder.log, disk=DISK)
        assert log.size == len(entries)
        published = log.checkpoint()
        assert published is not None
        assert Checkpoint.parse(published).size == len(entries)
        assert Anchor(self.environ).kept(origin) == published
        found = Store(self.folder.path).verify()
        assert (found.failed, found.faults) == (0, [])
        assert {one.decisionId for one in found.captures} == {one.decision for one in entries if one.kind == CAPTURE}
        for one in found.captures:
            covered = (one.checks.inclusion, one.checks.anchor, one.checks.content, one.checks.sequence)
            assert [check.state for check in covered] == ["ok"] * 4, one

    def files(self) -> dict[str, bytes]:
        """Every file of the store; what SQLite keeps beside the catalogue comes and goes."""
        root = Path(self.folder.path)
        return {
            str(file.relative_to(root)): file.read_bytes()
            for file in sorted(root.rglob("*"))
            if file.is_file() and not file.name.endswith(("-wal", "-shm"))
        }

    def unchanged_by_another_take_in(self) -> None:
        """Everything has been taken in: once more does nothing."""
        before = self.files()
        assert self.take_in() == []
        assert self.files() == before
        assert [name for name in before if name.startswith("spool/")] == []


def twice(values: Iterator[Any] | list[Any]) -> dict[Any, int]:
    """What occurs more than once, and how often."""
    return {value: count for value, count in Counter(values).items() if count > 1}


def _says_that_its_run_is_whole(entry: Entry) -> bool:
    return bool(entry.sources) and (entry.kind == RUN or entry.decision[4:] == entry.run[4:])
