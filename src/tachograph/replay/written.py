"""Files written, compared: how the recorded run left them, and how the replay did.

Each file is compared by what it means to its reader: a SQLite database by the rows of its tables (page order and change
counters mean nothing), a JSON document by its leaves, a text by its first differing line, the rest by its bytes.
Guarantees:

- a file that one side wrote and the other did not is named, also where only the other side has it;
- where content was not kept, digests decide;
- times that no draw gave (a log record's, SQLite's own clock) are drift and no difference, where nothing but the digits
  of a time of day differs: they are named in `drift`;
- what cannot be compared is said in `notes`, never passed over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tachograph.comparison.leaves import (
    ABSENT as NOWHERE,
)
from tachograph.comparison.leaves import (
    Leaf,
    NotPlainJson,
    as_json,
    byte_difference,
    differences,
    pointer,
    read_json,
    tree_of,
)
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.file_state import ABSENT, FILE, LINK, NOTHING, FileState, states_of
from tachograph.formats.frame import Frame
from tachograph.replay.startstate import StartState, database_of, named
from tachograph.replay.tables import is_database, tables
from tachograph.seams.filebook import MOST_DATABASE, MOST_DIGEST, MOST_LEFT, look

MOST_LEAVES = 20  # of one file: the first says where to look

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
)


@dataclass
class Written:
    """What a comparison of files found. `leaves` have whole JSON pointers (`/files/PATH/...`)."""

    leaves: list[Leaf] = field(default_factory=list)
    drift: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare_written(
    start: StartState, now: Mapping[str, FileState], *, change: Callable[[bytes], bytes] = bytes
) -> Written:  # fmt: skip
    """Compare how the recorded run left its files with how the replay left them (`now`: each path that it wrote).

    `change` puts placeholders in the place of credentials, as the recorded side has them.
    """
    found = Written()
    known = {*start.written, *start.opened, *now}
    for path in sorted({_whole(path, known) for path in {*start.written, *now}}):
        if path in start.not_told:
            continue
        recorded = start.written.get(path) or start.opened.get(path) or NOTHING
        replayed = now.get(path) or start.files.get(path) or recorded
        _compare(found, start, path, recorded, replayed, now, change)
    for path, reason in sorted({**start.not_kept, **start.not_told}.items()):
        found.notes.append(f"not compared: {path} ({reason})")
    return found


def states_left(
    start: StartState, frames: Iterable[Frame], *, overlay: bool, inside: Sequence[str]
) -> dict[str, FileState]:  # fmt: skip
    """Return how a replay left its files, from its report: as each process of it told when it ended.

    Where none told of a file that the recorded run wrote (it was killed, or did not write it), the file is looked at:
    as it was found in the overlay, else as it lies here. Files outside the folders `inside` that only the replay wrote
    are attempts to get out, and none of these.
    """
    frames = list(frames)
    told = dict(states_of(frames, fr.FILE_AFTER))
    found = {}
    for frame in frames:
        if frame.kind == fr.WRITTEN:
            said = values.decode(frame.payload)
            found[said["path"]] = _found(said)
    now = {path: state for path, state in told.items() if path in start.known}
    for path in start.written.keys() - now.keys():
        now[path] = found.get(path) or look(path, most=MOST_LEFT, digest=MOST_DIGEST, databases=MOST_DATABASE)
    folders = tuple(folder.rstrip("/") + "/" for folder in inside)
    for path in told.keys() - now.keys():
        if path.startswith(folders) and (not overlay or path in found):
            now[path] = told[path]
    return now


def _found(said: dict[str, Any]) -> FileState:
    data = said["data"]
    return FileState(
        said["kind"], mode=said["mode"], mtime_ns=said["mtime_ns"], size=said["size"], digest=said["sha256"],
        target=said["target"], data=data or b"", content=data is not None,
    )  # fmt: skip


def _whole(path: str, known: set[str]) -> str:
    base = database_of(path)
    return base if base in known else path


def _compare(
    found: Written, start: StartState, path: str, recorded: FileState, replayed: FileState,
    now: Mapping[str, FileState], change: Callable[[bytes], bytes],
) -> None:  # fmt: skip
    at = "/files/" + named(path, start.cwd)
    if path in start.not_kept:
        return
    if path not in start.written and path not in start.opened:
        if replayed.kind != ABSENT:  # what came and went again in the replay alone leaves nothing to compare
            found.leaves.append(Leaf(at, NOWHERE, _shown(replayed)))
        return
    if recorded.kind != replayed.kind:
        if ABSENT in (recorded.kind, replayed.kind):
            found.leaves.append(Leaf(at + "/exists", recorded.kind != ABSENT, replayed.kind != ABSENT))
        else:
            found.leaves.append(Leaf(at + "/kind", recorded.kind, replayed.kind))
    elif recorded.kind == LINK and recorded.target != replayed.target:
        found.leaves.append(Leaf(at + "/target", _text(recorded.target), _text(replayed.target)))
    elif recorded.kind == FILE:
        ours, theirs = (recorded, _wal(start.written, path)), (replayed, _wal(now, path))
        if not recorded.holds_as(replayed) or ours[1] != theirs[1]:
            _contents(found, at, path, ours, theirs, change)


def _wal(states: Mapping[str, FileState], path: str) -> bytes:
    beside = states.get(path + "-wal")
    return beside.data if beside is not None and beside.content else b""


def _contents(
    found: Written, at: str, path: str, ours: tuple[FileState, bytes], theirs: tuple[FileState, bytes],
    change: Callable[[bytes], bytes],
) -> None:  # fmt: skip
    recorded, replayed = ours[0], theirs[0]
    if not (recorded.content and replayed.content):
        found.leaves.append(Leaf(at + "/content", _shown(recorded), _shown(replayed)))
        return
    if is_database(recorded.data) and is_database(replayed.data):
        one, other = tables(recorded.data, ours[1]), tables(replayed.data, theirs[1])
        if one is not None and other is not None:
            _add(found, at, path, list(_rows(one, other, at + "/tables", change)))
            return
    data = change(replayed.data)
    if recorded.data != data:
        _add(found, at, path, _content(recorded.data, data, at + "/content"))


def _rows(one: dict[str, Any], other: dict[str, Any], at: str, change: Callable[[bytes], bytes]) -> Iterator[Leaf]:
    yield from differences(tree_of(one), tree_of(_changed(other, change)), at=at)


def _changed(value: Any, change: Callable[[bytes], bytes]) -> Any:
    if isinstance(value, dict):
        return {key: _changed(one, change) for key, one in value.items()}
    if isinstance(value, list):
        return [_changed(one, change) for one in value]
    if isinstance(value, bytes):
        return change(value)
    return (
        change(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if isinstance(value, str)
        else value
    )


def _content(recorded: bytes, replayed: bytes, at: str) -> list[Leaf]:
    try:
        leaves = list(differences(read_json(recorded), read_json(replayed), at=at))
        if leaves:
            return leaves
    except NotPlainJson:
        pass
    try:
        ours, theirs = recorded.decode().split("\n"), replayed.decode().split("\n")
    except UnicodeDecodeError:
        leaf = byte_difference(recorded, replayed, at=at)
        return [] if leaf is None else [leaf]
    return [
        Leaf(
            at + pointer("lines", number),
            ours[number] if number < len(ours) else NOWHERE,
            theirs[number] if number < len(theirs) else NOWHERE,
        )
        for number in range(max(len(ours), len(theirs)))
        if ours[number : number + 1] != theirs[number : number + 1]
    ]


def _add(found: Written, at: str, path: str, leaves: list[Leaf]) -> None:
    real = [leaf for leaf in leaves if not _only_times(leaf)]
    if len(real) < len(leaves):
        times = len(leaves) - len(real)
        found.drift.append({"kind": "file", "path": path, "count": times, "what": "times that no draw gave"})
    found.leaves += real[:MOST_LEAVES]
    if len(real) > MOST_LEAVES:
        found.notes.append(f"{path}: {len(real)} places differ, the first {MOST_LEAVES} are listed")


def _only_times(leaf: Leaf) -> bool:
    one, other = leaf.recorded, leaf.replayed
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    return _TIME.sub("<time>", one) == _TIME.sub("<time>", other)


def _shown(state: FileState) -> Any:
    if state.kind != FILE:
        return state.kind
    return {"sha256": state.digest or None, "bytes": state.size}


def _text(data: bytes) -> str:
    return os.fsdecode(data).encode("utf-8", "backslashreplace").decode()


def shown(value: Any) -> Any:
    """Return a leaf's value as a report prints it: null where one side has nothing."""
    return None if value is NOWHERE else as_json(value)
