"""RFC 6962 Merkle trees: heads, inclusion and consistency proofs, and a frontier that grows (section 2.1).

Leaves and nodes are hashed under different first bytes, so that none can pass for the other. Proving takes a function
that gives the head of a complete subtree; verifying takes nothing but the proof. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

EMPTY = sha256(b"").digest()
"""The head of a tree without leaves."""

SIZE = 32  # bytes of a hash

Node = Callable[[int, int], bytes]
"""`node(level, index)`: the head of the complete subtree over leaves `index << level` to `(index + 1 << level) - 1`."""


def leaf_hash(data: bytes) -> bytes:
    """Return a leaf's hash."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of two subtrees."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """A tree that grows, kept as the heads of its complete subtrees, the largest first: O(log n) bytes."""

    __slots__ = ("heads", "size")

    def __init__(self, size: int = 0, heads: Iterable[bytes] = ()) -> None:
        """Raises ValueError where there are not as many heads as a tree of that size has."""
        self.size, self.heads = size, list(heads)
        if len(self.heads) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves has {size.bit_count()} complete subtrees, not {len(self.heads)}")

    def append(self, hashed: bytes) -> None:
        """Add a leaf's hash."""
        heads, size = self.heads, self.size
        while size & 1:
            hashed = sha256(b"\x01" + heads.pop() + hashed).digest()
            size >>= 1
        heads.append(hashed)
        self.size += 1

    def root(self) -> bytes:
        """Return the tree's head."""
        return _folded(self.heads)

    def pack(self) -> bytes:
        """Return it as bytes: the size in eight, big-endian, then the heads, the largest first."""
        return self.size.to_bytes(8, "big") + b"".join(self.heads)

    @classmethod
    def unpack(cls, data: bytes) -> Frontier:
        """Read what `pack` wrote. Raises ValueError where there are not as many heads as that size has."""
        heads, rest = divmod(len(data) - 8, SIZE)
        if heads < 0 or rest:
            raise ValueError(f"a frontier is eight bytes and heads of {SIZE}, not {len(data)} bytes")
        return cls(int.from_bytes(data[:8], "big"), [data[at : at + SIZE] for at in range(8, len(data), SIZE)])


def _folded(heads: Sequence[bytes]) -> bytes:
    if not heads:
        return EMPTY
    root = heads[-1]
    for head in reversed(heads[:-1]):
        root = node_hash(head, root)
    return root


def root_of(hashes: Iterable[bytes]) -> bytes:
    """Return the head over leaf hashes."""
    frontier = Frontier()
    for hashed in hashes:
        frontier.append(hashed)
    return frontier.root()


def head_between(first: int, last: int, node: Node) -> bytes:
    """Return the head of the tree over leaves `first` to `last - 1`, where `first` begins a complete subtree of it."""
    heads = []
    while first < last:
        level = (last - first).bit_length() - 1
        if first:
            level = min(level, (first & -first).bit_length() - 1)
        heads.append(node(level, first >> level))
        first += 1 << level
    return _folded(heads)


def _split(size: int) -> int:
    """The largest power of two that is smaller."""
    return 1 << (size - 1).bit_length() - 1


def inclusion_proof(index: int, size: int, node: Node) -> list[bytes]:
    """Return the audit path of a leaf in a tree of `size` leaves, leaf first. Raises ValueError for no such leaf."""
    if not 0 <= index < size:
        raise ValueError(f"no leaf {index} in a tree of {size}")
    path: list[bytes] = []
    first, last = 0, size
    while last - first > 1:
        middle = first + _split(last - first)
        if index < middle:
            path.append(head_between(middle, last, node))
            last = middle
        else:
            path.append(head_between(first, middle, node))
            first = middle
    return path[::-1]


def root_from_inclusion(hashed: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes | None:
    """Return the head that an audit path leads to, or None where its length does not fit (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size or len(hashed) != SIZE:
        return None
    place, last = index, size - 1
    for step in proof:
        if last == 0 or len(step) != SIZE:
            return None
        if place & 1 or place == last:
            hashed = node_hash(step, hashed)
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            hashed = node_hash(hashed, step)
        place >>= 1
        last >>= 1
    return hashed if last == 0 else None


def verify_inclusion(hashed: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the leaf stands at that place in the tree with that head."""
    return root_from_inclusion(hashed, index, size, proof) == root


def consistency_proof(old: int, new: int, node: Node) -> list[bytes]:
    """Return the proof that the tree of `new` leaves continues that of `old` (RFC 6962, 2.1.2).

    Raises ValueError from size 0, which everything continues, and where `old` is the larger.
    """
    if not 0 < old <= new:
        raise ValueError(f"no consistency proof from size {old} to {new}")
    path: list[bytes] = []
    first, last, whole = 0, new, True
    while old != last:
        middle = first + _split(last - first)
        if old <= middle:
            path.append(head_between(middle, last, node))
            last = middle
        else:
            path.append(head_between(first, middle, node))
            first, whole = middle, False
    if not whole:
        path.append(head_between(first, last, node))
    return path[::-1]


def verify_consistency(old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> bool:
    """Whether the second head continues the first (RFC 9162, 2.1.4.2). Raises ValueError from size 0."""
    if old <= 0:
        raise ValueError("from size 0 nothing can be proved: every log continues the empty one")
    if old > new or any(len(step) != SIZE for step in proof):
        return False
    if old == new:
        return not proof and old_root == new_root
    steps = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not steps:
        return False
    place, last = old - 1, new - 1
    while place & 1:
        place >>= 1
        last >>= 1
    one = other = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            one, other = node_hash(step, one), node_hash(step, other)
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            other = node_hash(other, step)
        place >>= 1
        last >>= 1
    return last == 0 and one == old_root and other == new_root
