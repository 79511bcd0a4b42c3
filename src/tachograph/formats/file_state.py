"""The state of a file as frames: what it was before a run's first write to it, and what a process left.

One state is one `file_before` or `file_after` frame, and a `file_part` frame for each further megabyte of content: a
frame stays small, and a state whose parts did not all get there is known by its size. Invariants:

- a path is absolute, without `.`, `..` or a link in its folders; bytes that are no UTF-8 survive in it;
- `absent` is a state like any other: a file that was not there before must not be there when a replay begins;
- content is exact or left out: `content` says whether `data` is all of it; the digest is empty where nobody read it.

Standard library only: recorder and playback both write it.
"""

from __future__ import annotations

import os
from hashlib import sha256

from tachograph.errors import FormatError
from tachograph.formats import frame as fr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tachograph.formats.effect_log import Fact

    Packed = tuple[int, bytes]

FILE, ABSENT, FOLDER, LINK, SPECIAL = "file", "absent", "folder", "link", "special"
KINDS = frozenset((FILE, ABSENT, FOLDER, LINK, SPECIAL))

PART = 1 << 20  # bytes of content in one frame


class FileState:
    """What stands at a path. `digest` is the SHA-256 of all bytes (hex), empty where they were not read."""

    __slots__ = ("at_ns", "content", "data", "digest", "inode", "kind", "mode", "mtime_ns", "size", "target")

    def __init__(
        self, kind: str, *, mode: int = 0, mtime_ns: int = 0, size: int = 0, inode: int = 0, digest: str = "",
        target: bytes = b"", data: bytes = b"", content: bool = False, at_ns: int = 0,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.mode = mode
        self.mtime_ns = mtime_ns
        self.size = size
        self.inode = inode
        self.digest = digest
        self.target = target
        self.data = data
        self.content = content
        self.at_ns = at_ns

    @classmethod
    def of(cls, data: bytes, *, mode: int = 0o644, mtime_ns: int = 0) -> FileState:
        """Return the state of a file with this content."""
        return cls(
            FILE, mode=mode, mtime_ns=mtime_ns, size=len(data), digest=sha256(data).hexdigest(), data=data, content=True
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileState) and all(getattr(self, n) == getattr(other, n) for n in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.kind, self.digest, self.size, self.target))

    def __repr__(self) -> str:
        return f"FileState({self.kind!r}, size={self.size}, digest={self.digest[:12]!r}, content={self.content})"

    def holds_as(self, other: FileState) -> bool:
        """Say whether both hold the same: kind, and bytes or where the link leads. Times and modes do not count."""
        if self.kind != other.kind or self.kind == LINK:
            return self.kind == other.kind and self.target == other.target
        if self.kind != FILE:
            return True
        if self.digest and other.digest:
            return self.digest == other.digest
        return (self.size, self.mtime_ns, self.inode) == (other.size, other.mtime_ns, other.inode)


NOTHING = FileState(ABSENT)


def pack_state(kind: int, key: bytes, path: str, state: FileState) -> Iterator[Packed]:
    """Yield the frames (kind, payload) of one state; `key` is unlike that of any other state of the run."""
    head = fr.fields(
        key, os.fsencode(path), state.kind.encode(), b"%d" % state.mode, b"%d" % state.mtime_ns, b"%d" % state.size,
        b"%d" % state.inode, state.digest.encode(), state.target, b"1" if state.content else b"0",
    )  # fmt: skip
    yield kind, head + state.data[:PART]
    for at in range(PART, len(state.data), PART):
        yield fr.FILE_PART, fr.fields(key) + state.data[at : at + PART]


def read_state(payload: bytes) -> tuple[bytes, str, FileState]:
    """Return key, path and state of a frame, its content as far as this frame has it. Raises FormatError."""
    parts, at = fr.unpack_fields(payload)
    if len(parts) != 10 or parts[2].decode("latin-1") not in KINDS or parts[9] not in (b"0", b"1"):
        raise FormatError("a frame of a file's state does not say what it is")
    key, path, kind, mode, mtime_ns, size, inode, digest, target, content = parts
    try:
        numbers = [int(part) for part in (mode, mtime_ns, size, inode)]
    except ValueError as fault:
        raise FormatError(f"a frame of a file's state holds no number: {fault}") from fault
    state = FileState(
        kind.decode(), mode=numbers[0], mtime_ns=numbers[1], size=numbers[2], inode=numbers[3],
        digest=digest.decode("latin-1"), target=target, data=payload[at:], content=content == b"1",
    )  # fmt: skip
    return key, os.fsdecode(path), state


def states_of(facts: Iterable[Fact | fr.Frame], kind: int) -> list[tuple[str, FileState]]:
    """Return (path, state) of every frame of that kind, parts put together, in order.

    A state some of whose parts are missing has no content. Raises FormatError where a frame is not what it says.
    """
    found: list[tuple[str, FileState]] = []
    parts: dict[bytes, list[bytes]] = {}
    by_key: dict[bytes, FileState] = {}
    for fact in facts:
        if fact.kind == kind:
            key, path, state = read_state(fact.payload)
            state.at_ns = fact.at_ns
            by_key[key] = state
            parts[key] = [state.data]
            found.append((path, state))
        elif fact.kind == fr.FILE_PART:
            (key,), at = fr.unpack_fields(fact.payload)
            if key in parts:
                parts[key].append(fact.payload[at:])
    for key, state in by_key.items():
        if len(parts[key]) > 1:
            state.data = b"".join(parts[key])
        if state.content and len(state.data) != state.size:
            state.content, state.data = False, b""
    return found


def write_states(states: Mapping[str, FileState]) -> bytes:
    """Write states down as a log of `file_before` frames: for another process to read."""
    frames = [
        fr.Frame(kind, 0, 0, 0, 0, 0, number, b"", payload)
        for number, (path, state) in enumerate(states.items())
        for kind, payload in pack_state(fr.FILE_BEFORE, b"%d" % number, path, state)
    ]
    return fr.write_log(frames)[0]


def read_states(log: bytes) -> dict[str, FileState]:
    """Undo `write_states`. Raises FormatError."""
    found: dict[str, FileState] = {}
    for frame in fr.read_log(log):
        if frame.kind == fr.FILE_BEFORE:
            key, path, state = read_state(frame.payload)
            found[path] = state
            parts = {key: state}
        elif frame.kind == fr.FILE_PART:
            (key,), at = fr.unpack_fields(frame.payload)
            parts[key].data += frame.payload[at:]
    return found
