"""A growing segment writes each batch once, in chains that end, and can be gone on with."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tachograph.store.growing import LONGEST_CHAIN, Growing
from tachograph.store.opened import FIRST, load
from tachograph.store.records import scan
from tachograph.store.segment_file import OPEN, Identity, decrypt, read_identity
from tests.store.kept import DOMAIN, conversation

KEY = b"k" * 32
IDENTITY = Identity(OPEN, b"s" * 16, 0, DOMAIN)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.seg"


def begun(path: Path) -> Growing:
    return Growing.begin(str(path), IDENTITY, KEY)


def chains(path: Path) -> list[int]:
    """How many records each chain of a file has."""
    data = path.read_bytes()
    identity, at = read_identity(str(path), data)
    lengths: list[int] = []
    for number, record in enumerate(scan(str(path), data, at, lambda *_: True).records):
        plain = decrypt(AESGCM(KEY), data[record.start : record.end], identity, number, record.at)
        if plain[:1] == FIRST:
            lengths.append(0)
        lengths[-1] += 1
    return lengths


def test_there_is_no_file_before_the_first_write(path: Path) -> None:
    growing = begun(path)
    assert growing.add(b"a log", [0]) == 0
    assert not path.exists()
    growing.write()
    growing.sync()
    assert path.stat().st_mode & 0o777 == 0o600
    assert load(str(path), path.read_bytes(), KEY).read(0) == b"a log"


def test_a_batch_is_one_record_and_an_empty_one_none(path: Path) -> None:
    growing = begun(path)
    logs = conversation(3, long=20)
    for log, cuts in logs:
        growing.add(log, cuts)
    growing.write()
    growing.write()
    assert chains(path) == [1]
    content = load(str(path), path.read_bytes(), KEY)
    assert [content.read(number) for number in range(3)] == [log for log, _ in logs]


def test_no_chain_is_longer_than_32(path: Path) -> None:
    growing = begun(path)
    logs = conversation(70, long=20)
    for log, cuts in logs:
        growing.add(log, cuts)
        growing.write()
    assert chains(path) == [LONGEST_CHAIN, LONGEST_CHAIN, 6]
    content = load(str(path), path.read_bytes(), KEY)
    assert [content.read(number) for number in range(70)] == [log for log, _ in logs]


def test_gone_on_with_in_another_process_it_knows_what_it_holds(path: Path) -> None:
    logs = conversation(40)
    growing = begun(path)
    for log, cuts in logs[:20]:
        growing.add(log, cuts)
        growing.write()
    growing.close()
    before = path.read_bytes()
    again = Growing.reopen(load(str(path), before, KEY), KEY)
    for log, cuts in logs[20:]:
        again.add(log, cuts)
        again.write()
    again.close()
    assert path.read_bytes().startswith(before)  # nothing written is written again
    assert chains(path) == [20, 20]
    content = load(str(path), path.read_bytes(), KEY)
    assert [content.read(number) for number in range(40)] == [log for log, _ in logs]
    assert len(content.rope) < 1.2 * len(logs[-1][0])


def test_gone_on_with_it_knows_the_newest_requests_even_where_nothing_marks_a_beginning(path: Path) -> None:
    noise = random.Random(1).randbytes(20_000).translate(bytes(value % 26 + 97 for value in range(256)))
    growing = begun(path)
    growing.add(noise, [0])
    growing.write()
    again = Growing.reopen(load(str(path), path.read_bytes(), KEY), KEY)
    again.add(noise + b" and more", [0])
    assert len(again.content.rope) == len(noise) + len(b" and more")


def test_it_is_full_by_bytes(path: Path) -> None:
    growing = begun(path)
    growing.add(b"x" * 1000, [])
    assert growing.is_full(1000)
    assert not growing.is_full(1001)
    assert growing.memory >= 1000
