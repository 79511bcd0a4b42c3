"""RFC 6962: the published vectors, and our own trees against a definition written out."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.signing import merkle
from tachograph.signing.merkle import Frontier, leaf_hash, node_hash, root_of


def head(hashes: list[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, word for word."""
    if len(hashes) < 2:
        return hashes[0] if hashes else merkle.EMPTY
    split = 1 << (len(hashes) - 1).bit_length() - 1
    return node_hash(head(hashes[:split]), head(hashes[split:]))


LEAVES = [leaf_hash(b"%d" % n) for n in range(70)]


def node(level: int, index: int) -> bytes:
    """The head of a complete subtree."""
    return head(LEAVES[index << level : (index + 1) << level])


def test_the_hasher_s_constants(shared: Path) -> None:
    said = json.loads((shared / "vectors/c2sp/note_and_hasher.json").read_text())["rfc6962_hasher"]
    assert merkle.EMPTY.hex() == said["empty_root"]
    assert leaf_hash(b"").hex() == said["empty_leaf"]
    assert leaf_hash(b"L123456").hex() == said["leaf_L123456"]
    assert node_hash(b"N123", b"N456").hex() == said["node_N123_N456"]


def test_published_inclusion_proofs(shared: Path) -> None:
    seen = {True: 0, False: 0}
    for path in sorted((shared / "vectors/rfc6962/inclusion").rglob("*.json")):
        one = json.loads(path.read_text())
        proof = [b64decode(step) for step in one["proof"] or []]
        right = merkle.verify_inclusion(
            b64decode(one["leafHash"] or ""), one["leafIdx"], one["treeSize"], proof, b64decode(one["root"] or "")
        )
        assert right is not one["wantErr"], path
        seen[right] += 1
    assert min(seen.values()) >= 5


def test_published_consistency_proofs(shared: Path) -> None:
    seen = {True: 0, False: 0}
    for path in sorted((shared / "vectors/rfc6962/consistency").rglob("*.json")):
        one = json.loads(path.read_text())
        proof = [b64decode(step) for step in one["proof"] or []]
        roots = b64decode(one["root1"] or ""), b64decode(one["root2"] or "")
        try:
            right = merkle.verify_consistency(one["size1"], one["size2"], proof, *roots)
        except ValueError:
            assert one["size1"] == 0
            right = False
        assert right is not one["wantErr"], path
        seen[right] += 1
    assert min(seen.values()) >= 5


@given(st.integers(0, 70))
def test_a_frontier_has_the_head_that_the_definition_gives(size: int) -> None:
    frontier = Frontier()
    for hashed in LEAVES[:size]:
        frontier.append(hashed)
    assert frontier.root() == head(LEAVES[:size]) == root_of(LEAVES[:size]) == merkle.head_between(0, size, node)
    assert Frontier(frontier.size, frontier.heads).root() == frontier.root()
    assert len(frontier.pack()) == 8 + 32 * size.bit_count()
    again = Frontier.unpack(frontier.pack())
    for one in (again, frontier):
        one.append(LEAVES[0])
    assert again.root() == frontier.root()


def test_a_frontier_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="2 complete subtrees"):
        Frontier(3, [merkle.EMPTY])
    for data in (b"", b"1234567", bytes(7) + b"\x03" + bytes(32), bytes(8) + bytes(32), bytes(7) + b"\x01" + bytes(31)):
        with pytest.raises(ValueError, match=r"frontier|subtrees"):
            Frontier.unpack(data)


@given(st.integers(1, 70), st.data())
def test_what_is_proved_verifies_and_nothing_else(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    root = head(LEAVES[:size])
    proof = merkle.inclusion_proof(index, size, node)
    assert merkle.verify_inclusion(LEAVES[index], index, size, proof, root)
    for other in range(size):
        assert merkle.verify_inclusion(LEAVES[index], other, size, proof, root) is (other == index)
    assert not merkle.verify_inclusion(LEAVES[index], index, size, [*proof, merkle.EMPTY], root)
    assert not proof or not merkle.verify_inclusion(LEAVES[index], index, size, proof[:-1], root)
    old = data.draw(st.integers(1, size))
    steps = merkle.consistency_proof(old, size, node)
    old_root = head(LEAVES[:old])
    assert merkle.verify_consistency(old, size, steps, old_root, root)
    assert not merkle.verify_consistency(old, size, steps, head([*LEAVES[:old][::-1], merkle.EMPTY]), root)
    assert old == size or not merkle.verify_consistency(old, size, steps[:-1], old_root, root)


def test_there_is_no_proof_of_what_is_not_there() -> None:
    for index, size in ((3, 3), (-1, 3), (0, 0)):
        with pytest.raises(ValueError, match="no leaf"):
            merkle.inclusion_proof(index, size, node)
        assert not merkle.verify_inclusion(LEAVES[0], index, size, [], LEAVES[0])
    for old, new in ((0, 5), (6, 5)):
        with pytest.raises(ValueError, match="no consistency proof"):
            merkle.consistency_proof(old, new, node)
    with pytest.raises(ValueError, match="size 0"):
        merkle.verify_consistency(0, 5, [], merkle.EMPTY, merkle.EMPTY)
