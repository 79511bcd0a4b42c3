"""Signed notes and checkpoints: the published ones verify, ours are read back, and nothing odd is taken."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import FormatError
from tachograph.signing import merkle, note
from tachograph.signing.keys import SigningKey

KEY = SigningKey.from_bytes(b"k" * 32)
WITNESS = SigningKey.from_bytes(b"w" * 32)
SIGNER = note.Signer("tachograph/ab/default/0", KEY)
SAID = note.Checkpoint(origin="tachograph/ab/default/0", size=3, root=b"r" * 32)
TILES_KEY = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"


def test_the_specification_s_own_note(shared: Path) -> None:
    said = json.loads((shared / "vectors/c2sp/note_and_hasher.json").read_text())["signed_note"]
    verifier = note.Verifier.parse(said["vkey"])
    data = said["note"].encode()
    assert note.Note.parse(data).verified_by(verifier) == 0
    assert note.Note.parse(data).data() == data
    assert verifier.text() == said["vkey"]
    changed = note.Note.parse(data.replace(b"example message", b"exomple message"))
    assert changed.verified_by(verifier) is None


def test_sixteen_published_checkpoints(shared: Path) -> None:
    verifier = note.Verifier.parse(TILES_KEY)
    for size in range(16):
        data = (shared / f"vectors/tlog-tiles/testdata/log/checkpoint.{size}").read_bytes()
        assert note.Note.parse(data).verified_by(verifier) == 0
        assert note.Checkpoint.parse(data).size == size


def test_what_is_signed_is_read_back() -> None:
    data = note.sign(SAID.body(), [SIGNER])
    read = note.Note.parse(data)
    assert note.Checkpoint.parse(data) == SAID
    assert read.verified_by(SIGNER.verifier) == 0
    assert read.verified_by(note.Verifier("another/name", KEY.public)) is None
    assert read.verified_by(note.Verifier(SIGNER.name, WITNESS.public)) is None


def test_a_witness_signs_beside_with_its_time() -> None:
    data = note.cosign(note.sign(SAID.body(), [SIGNER]), "witness.example", WITNESS, at=1_800_000_000)
    read = note.Note.parse(data)
    witness = note.Verifier("witness.example", WITNESS.public, note.WITNESS_KEY)
    assert read.verified_by(witness) == 1_800_000_000
    assert read.verified_by(SIGNER.verifier) == 0
    line = read.lines[1]
    later = note.Line(line.name, line.hash, (1_800_000_001).to_bytes(8, "big") + line.signature[8:])
    assert note.Note(read.text, (read.lines[0], later)).verified_by(witness) is None


def test_one_line_of_a_known_key_that_does_not_verify_spoils_the_note() -> None:
    read = note.Note.parse(note.sign(SAID.body(), [SIGNER]))
    other = note.Line(read.lines[0].name, read.lines[0].hash, KEY.sign(b"something else"))
    for lines in ((read.lines[0], other), (other, read.lines[0])):
        assert note.Note(read.text, lines).verified_by(SIGNER.verifier) is None
    unknown = note.Line(read.lines[0].name, b"abcd", other.signature)
    assert note.Note(read.text, (unknown, read.lines[0])).verified_by(SIGNER.verifier) == 0


@pytest.mark.parametrize("extra", [None, b"", b"context"])
def test_an_inclusion_file_is_read_back(extra: bytes | None) -> None:
    proof = note.Proof(5, (b"a" * 32, b"b" * 32), note.sign(SAID.body(), [SIGNER]), extra)
    assert note.Proof.parse(proof.data()) == proof
    assert proof.data().startswith(b"c2sp.org/tlog-proof@v1\n")


def test_an_inclusion_file_proves_its_leaf_and_no_other() -> None:
    leaves = [merkle.leaf_hash(b"%d" % n) for n in range(3)]
    said = note.Checkpoint(origin=SIGNER.name, size=3, root=merkle.root_of(leaves))
    path = (leaves[0], leaves[2])
    proof = note.Proof(1, path, note.sign(said.body(), [SIGNER]))
    log = SIGNER.verifier
    assert proof.verify(leaves[1], log) == said
    assert proof.verify(leaves[0], log) is None
    assert note.Proof(0, path, proof.checkpoint).verify(leaves[1], log) is None
    assert proof.verify(leaves[1], note.Verifier(SIGNER.name, WITNESS.public)) is None
    renamed = note.Signer("another/log", KEY)
    assert note.Proof(1, path, note.sign(said.body(), [renamed])).verify(leaves[1], renamed.verifier) is None


@pytest.mark.parametrize(
    "head",
    [
        "index 05", "index -1", "index 1" + "0" * 5000, "index \u0661", "index", "index 1\nextra QQ==",
        "extra !\nindex 1", "extra QQ==\nextra QQ==\nindex 1", "index 1\nQQ==",
    ],
)  # fmt: skip
def test_what_is_no_inclusion_file_is_refused(head: str) -> None:
    with pytest.raises(FormatError):
        note.Proof.parse(f"{note.PROOF_HEAD}\n{head}\n\n".encode() + note.sign(SAID.body(), [SIGNER]))


def test_a_key_s_name_has_no_space_of_any_kind() -> None:
    line = "\u2014 na\u2003me " + b64encode(b"s" * 68).decode()
    with pytest.raises(FormatError, match="signature line"):
        note.Note.parse(SAID.body() + b"\n" + line.encode() + b"\n")
    with pytest.raises(FormatError, match="verifier key"):
        note.Verifier.parse(note.Verifier("na\u2003me", KEY.public).text())


@pytest.mark.parametrize(
    "data",
    [
        b"", b"x", b"a\n\n", b"a\n\nno dash\n", b"a\n\n\xe2\x80\x94 n !!!!\n", b"a\n\n\xe2\x80\x94 n QUFBQQ==\n",
        b"a\x07\n\n\xe2\x80\x94 n QUFBQUE=\n", b"\xff\n\n\xe2\x80\x94 n QUFBQUE=\n",
    ],
)  # fmt: skip
def test_what_is_no_note_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        note.Note.parse(data)


@pytest.mark.parametrize(
    "text",
    [
        "o\n1\nAAAA\n",
        "o\n01\n" + "A" * 43 + "=\n",
        "o\n-1\n" + "A" * 43 + "=\n",
        "\n1\n" + "A" * 43 + "=\n",
        "o\n1\n",
        "o\n" + "1" * 5000 + "\n" + "A" * 43 + "=\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        note.Checkpoint.parse(text.encode())


@given(st.binary(max_size=200))
def test_no_bytes_break_the_readers(data: bytes) -> None:
    for read in (note.Note.parse, note.Checkpoint.parse, note.Proof.parse):
        with pytest.raises(FormatError):
            read(b"\x00" + data)
