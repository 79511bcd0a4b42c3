"""A place gives the same bytes for ever or a refusal, through crashes, full disks, other processes and sealing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tachograph.errors import DamagedStore, KeyMissing
from tachograph.store.growing import Growing
from tachograph.store.keytable import SEGMENT
from tachograph.store.opened import Content
from tachograph.store.sealed import Sealed, write_sealed
from tachograph.store.segment_file import OPEN, SEALED, Identity
from tachograph.store.segments import ContentStore, Place, _check_sealed
from tests.store.kept import (
    DOMAIN,
    MARKER,
    OTHER_DOMAIN,
    FailingSync,
    FullDisk,
    Kept,
    PowerCut,
    StoppingDisk,
    conversation,
    logs,
)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def check(kept: Kept, places: list[Place], some: list[tuple[bytes, list[int]]]) -> None:
    with kept.content() as content:
        assert [content.read(place) for place in places] == [log for log, _ in some]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some=logs(), steps=st.lists(st.sampled_from(["commit", "reopen", "seal", "other domain"]), max_size=12))
def test_any_logs_come_back_whatever_happens_in_between(
    tmp_path_factory: pytest.TempPathFactory, some: list[tuple[bytes, list[int]]], steps: list[str]
) -> None:
    kept = Kept(tmp_path_factory.mktemp("store"))
    content = ContentStore(kept.store.segments, kept.keys(write=True))
    domain, places = DOMAIN, []
    for number, (log, cuts) in enumerate(some):
        places.append(content.append(domain, log, cuts))
        assert content.read(places[-1]) == log
        step = steps[number] if number < len(steps) else ""
        if step:
            content.commit()
        if step == "seal":
            content.seal(places[-1].segment)
        if step == "reopen":
            content.close()
            content = ContentStore(kept.store.segments, kept.keys(write=True))
        if step == "other domain":
            domain = OTHER_DOMAIN if domain == DOMAIN else DOMAIN
    content.commit()
    content.close()
    check(kept, places, some)


def test_domains_share_nothing(kept: Kept) -> None:
    [one] = kept.put(conversation(5)[-1])
    [other] = kept.put(conversation(5)[-1], domain=OTHER_DOMAIN)
    assert one.segment != other.segment
    sizes = {os.path.getsize(os.path.join(kept.store.segments, f"{place.segment}.seg")) for place in (one, other)}
    assert max(sizes) - min(sizes) < 20  # the second domain had nothing of the first to lean on
    os.unlink(os.path.join(kept.store.segments, f"{one.segment}.seg"))
    assert kept.read(other) == conversation(5)[-1][0]
    with kept.content() as content:
        assert {identity.domain for _, identity in content.segments()} == {OTHER_DOMAIN}


def test_no_word_of_the_content_is_on_the_disk(kept: Kept) -> None:
    [place, *_] = kept.put(*conversation(4))
    for _ in range(2):
        for name, data in kept.files().items():
            assert MARKER not in data, name
            assert b"api.example.com" not in data, name
        with kept.content(write=True) as content:
            content.seal(place.segment)


def test_what_was_not_committed_is_not_there(kept: Kept) -> None:
    with kept.content(write=True) as content:
        first = content.append(DOMAIN, b"committed", [])
        content.commit()
        second = content.append(DOMAIN, b"not committed", [])
        third = content.append(OTHER_DOMAIN, b"nor this", [])
        content.discard()
        assert content.read(first) == b"committed"
    for place in (second, third):
        with pytest.raises(DamagedStore, match=place.segment):
            kept.read(place)


def test_sealing_changes_no_place_and_the_domain_goes_on_elsewhere(kept: Kept) -> None:
    some = conversation(12)
    places = kept.put(*some[:10])
    path = Path(kept.store.segments) / f"{places[0].segment}.seg"
    size = path.stat().st_size
    reader = ContentStore(kept.store.segments, kept.keys())
    assert reader.read(places[3]) == some[3][0]
    with kept.content(write=True) as content:
        content.seal(places[0].segment)
        content.seal(places[0].segment)
        places += [content.append(DOMAIN, *log) for log in some[10:]]
        content.commit()
        kinds = {segment: identity.kind for segment, identity in content.segments()}
    assert kinds == {places[0].segment: SEALED, places[-1].segment: OPEN}
    assert path.stat().st_size < size
    assert reader.read(places[4]) == some[4][0]  # a reader that had the open form goes on with the sealed one
    check(kept, places, some)


def test_a_full_segment_takes_no_more_and_is_named(kept: Kept) -> None:
    some = [(os.urandom(3000), [0]) for _ in range(7)]
    with kept.content(write=True, segment_bytes=9000) as content:
        places = [content.append(DOMAIN, *log) for log in some]  # one batch over three segments
        content.commit()
        full = content.full_segments()
        assert [place.item for place in places] == [0, 1, 2, 0, 1, 2, 0]
        assert full == [places[0].segment, places[3].segment]
        for segment in full:
            content.seal(segment)
        assert content.full_segments() == []
    check(kept, places, some)


def test_a_full_segment_that_was_closed_meanwhile_is_still_named(kept: Kept) -> None:
    with kept.content(write=True, segment_bytes=1000, write_bytes=0) as content:
        [place] = [content.append(DOMAIN, *conversation(1)[0])]
        assert content.waiting > 1000
        content.commit()
        assert (content.waiting, content._writers) == (0, {})
        assert content.full_segments() == [place.segment]
        content.seal(place.segment)
        assert content.full_segments() == []


def test_with_little_memory_everything_still_comes_back(kept: Kept) -> None:
    some = conversation(6)
    with kept.content(write=True, write_bytes=0, read_bytes=0) as content:
        places = []
        for number, (log, cuts) in enumerate(some):
            places.append(content.append((DOMAIN, OTHER_DOMAIN)[number % 2], log, cuts))
            content.commit()
        assert len(list(content.segments())) == 2
        assert [content.read(place) for place in places] == [log for log, _ in some]


def test_a_reader_sees_what_the_sealer_adds_meanwhile(kept: Kept) -> None:
    some = conversation(3)
    reader = ContentStore(kept.store.segments, kept.keys())
    with kept.content(write=True) as content:
        for log, cuts in some:
            place = content.append(DOMAIN, log, cuts)
            content.commit()
            assert reader.read(place) == log
        other = content.append(OTHER_DOMAIN, b"in a new segment", [])
        content.commit()
        assert reader.read(other) == b"in a new segment"


def test_another_process_reads_what_this_one_wrote(kept: Kept) -> None:
    [place] = kept.put((b"from here", []))
    source = (
        "import os, sys; from tachograph.store.location import open_store;"
        "from tachograph.store.keytable import KeyTable; from tachograph.store.segments import ContentStore, Place;"
        "s = open_store(sys.argv[1], environ=os.environ);"
        "print(ContentStore(s.segments, KeyTable(s.path, s.keyring(os.environ))).read(Place(sys.argv[2], 0)).decode())"
    )
    command = [sys.executable, "-c", source, kept.store.path, place.segment]
    done = subprocess.run(command, env={**os.environ, **kept.environ}, capture_output=True, text=True, check=True)
    assert done.stdout == "from here\n"


# --- crashes ----------------------------------------------------------------------------------------------------------


def sealer(kept: Kept, disk: StoppingDisk, some: list[tuple[bytes, list[int]]], acknowledged: list[Place]) -> None:
    """A sealer's life: batches, a second domain, a segment sealed. `acknowledged`: the places that were committed."""
    with kept.content(write=True, disk=disk) as content:
        for number, (log, cuts) in enumerate(some):
            place = content.append(DOMAIN if number < 3 else OTHER_DOMAIN, log, cuts)
            content.commit()
            acknowledged.append(place)
        content.seal(acknowledged[0].segment)


@pytest.mark.parametrize("power", ["process killed", "power cut"])
def test_stopped_anywhere_what_was_committed_is_there_and_the_store_goes_on(tmp_path: Path, power: str) -> None:
    some = conversation(5, long=40)
    for stop in range(1, 100):
        kept = Kept(tmp_path / str(stop))
        acknowledged: list[Place] = []
        disk = StoppingDisk(stop)
        try:
            sealer(kept, disk, some, acknowledged)
        except PowerCut:
            if power == "power cut":
                disk.cut_power()
            check(kept, acknowledged, some[: len(acknowledged)])
            vouched = {place.segment: place.item + 1 for place in acknowledged}
            with kept.content(write=True, vouched=lambda segment, so_far=vouched: so_far.get(segment, 0)) as content:
                again = [content.append(OTHER_DOMAIN if n % 2 else DOMAIN, *log) for n, log in enumerate(some)]
                content.commit()
                for segment in {place.segment for place in acknowledged}:
                    content.seal(segment)
                assert not [name for name in os.listdir(kept.store.segments) if name.endswith(".new")]
            assert not set(again) & set(acknowledged)
            check(kept, [*acknowledged, *again], [*some[: len(acknowledged)], *some])
        else:
            assert stop > 20
            return
    pytest.fail("the sealer never came to its end")


def test_after_a_failed_sync_nothing_counts_and_nothing_is_lost(kept: Kept) -> None:
    some = conversation(4, long=40)
    places = kept.put(*some[:2])
    for syncs in range(2):
        with kept.content(write=True, disk=FailingSync(syncs)) as content:
            content.append(OTHER_DOMAIN, *some[2])
            with pytest.raises(OSError, match="Input/output"):
                content.commit()
    check(kept, places, some[:2])
    with kept.content(write=True) as content:
        places += [content.append(DOMAIN, *log) for log in some[2:]]
        content.commit()
    check(kept, places, some)


def test_a_full_disk_leaves_the_store_readable_and_goes_on_when_there_is_room(kept: Kept) -> None:
    some = conversation(4, long=40)
    places = kept.put(*some[:2])
    before = kept.files()
    for room in range(0, 400, 7):
        with kept.content(write=True, disk=FullDisk(room)) as content:
            failed = content.append(DOMAIN, *some[2])
            with pytest.raises(OSError, match="No space left"):
                content.commit()
            with pytest.raises(DamagedStore, match="item 2"):
                content.read(failed)
        assert kept.files() == before
    with kept.content(write=True, disk=FullDisk(10)) as content, pytest.raises(OSError, match="No space left"):
        content.seal(places[0].segment)
    assert kept.files() == before
    check(kept, places, some[:2])


def test_a_segment_that_holds_less_than_the_journal_says_is_left_alone(kept: Kept) -> None:
    some = conversation(4, long=40)
    places = kept.put(*some[:3])
    path = Path(kept.store.segments) / f"{places[0].segment}.seg"
    cut = path.read_bytes()[:-5]
    path.write_bytes(cut)
    with kept.content(write=True, vouched=lambda segment: 3) as content:
        with pytest.raises(DamagedStore, match=r"holds 2 items and the journal refers to 3.*was cut off"):
            content.seal(places[0].segment)
        place = content.append(DOMAIN, *some[3])
        content.commit()
        assert place.segment != places[0].segment
        assert "left as it is" in content.findings[0]
    assert path.read_bytes() == cut
    check(kept, [*places[:2], place], [*some[:2], some[3]])
    with pytest.raises(DamagedStore, match="item 2"):
        kept.read(places[2])


def test_a_torn_tail_that_nobody_vouches_for_is_cut_and_said(kept: Kept) -> None:
    some = conversation(4, long=40)
    places = kept.put(*some[:3])
    path = Path(kept.store.segments) / f"{places[0].segment}.seg"
    path.write_bytes(path.read_bytes()[:-5])
    with kept.content(write=True, vouched=lambda segment: 2) as content:
        place = content.append(DOMAIN, *some[3])
        content.commit()
        assert place == Place(places[0].segment, 2)
        assert "cut off: what it held is still in the spool" in content.findings[0]
    check(kept, [*places[:2], place], [*some[:2], some[3]])


def test_a_damaged_segment_is_not_written_to(kept: Kept) -> None:
    some = conversation(3, long=40)
    places = kept.put(*some[:2])
    path = Path(kept.store.segments) / f"{places[0].segment}.seg"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    [place] = kept.put(some[2])
    assert place.segment != places[0].segment
    assert path.read_bytes() == bytes(data)


# --- other damage -----------------------------------------------------------------------------------------------------


def test_a_segment_that_is_gone_or_stands_under_another_name_is_refused(kept: Kept) -> None:
    [one] = kept.put((b"one", []))
    [other] = kept.put((b"other", []), domain=OTHER_DOMAIN)
    paths = [Path(kept.store.segments) / f"{place.segment}.seg" for place in (one, other)]
    shutil.copy(paths[0], paths[1])
    with pytest.raises(DamagedStore, match=f"{other.segment}.seg: holds segment {one.segment}"):
        kept.read(other)
    paths[1].unlink()
    with pytest.raises(DamagedStore, match="is gone, and item 0 with it"):
        kept.read(other)
    with kept.content(write=True, vouched=lambda segment: 1) as content:
        content.append(OTHER_DOMAIN, b"new", [])
        assert "is gone, and the journal refers to it" in content.findings[0]
        content.commit()


def test_an_item_that_never_was_is_refused(kept: Kept) -> None:
    [place] = kept.put((b"one", []))
    for item in (1, -1):
        with pytest.raises(DamagedStore, match=f"item {item} cannot be read"):
            kept.read(place._replace(item=item))


def test_without_its_key_a_segment_is_not_read(kept: Kept) -> None:
    [one] = kept.put((b"one", []))
    [other] = kept.put((b"other", []), domain=OTHER_DOMAIN)
    table = kept.keys(write=True)
    table.rewrite(lambda kind, id, domain: not (kind == SEGMENT and domain == OTHER_DOMAIN))
    table.close()
    assert kept.read(one) == b"one"
    with pytest.raises(KeyMissing, match=f"segment {other.segment}"):
        kept.read(other)


def test_segments_that_cannot_be_told_are_named(kept: Kept) -> None:
    kept.put((b"one", []))
    (Path(kept.store.segments) / "00.seg").write_bytes(b"x")
    with kept.content() as content:
        assert len(list(content.segments())) == 1
        assert "00.seg" in content.findings[0]


def test_a_reader_that_knew_the_file_notices_that_it_was_exchanged_or_cut(kept: Kept) -> None:
    some = conversation(3, long=40)
    places = kept.put(*some)
    path = Path(kept.store.segments) / f"{places[0].segment}.seg"
    data = path.read_bytes()
    with kept.content() as content:
        assert content.read(places[2]) == some[2][0]
        changed = path.with_suffix(".other")
        changed.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        os.replace(changed, path)
        with pytest.raises(DamagedStore, match="item 2"):
            content.read(places[2])
        path.write_bytes(data)
        assert content.read(places[2]) == some[2][0]
        os.truncate(path, len(data) - 1)
        with pytest.raises(DamagedStore, match="item 2"):
            content.read(places[2])


def test_a_sealed_form_that_does_not_give_back_its_content_does_not_take_its_place() -> None:
    def grown(some: list[tuple[bytes, list[int]]]) -> Content:
        growing = Growing.begin("f", Identity(OPEN, b"s" * 16, 0, DOMAIN), b"k" * 32)
        for log, cuts in some:
            growing.add(log, cuts)
        return growing.content

    some = conversation(3)
    content = grown(some)
    _check_sealed(Sealed("f", write_sealed(content, b"k" * 32), b"k" * 32), content)
    for other in (some[:2], some[::-1], [*some, (b"more", [])], [(some[0][0] + b"x", []), *some[1:]]):
        with pytest.raises(DamagedStore, match="it stays open"):
            _check_sealed(Sealed("f", write_sealed(grown(other), b"k" * 32), b"k" * 32), content)


def test_uncommitted_logs_are_not_sealed(kept: Kept) -> None:
    with kept.content(write=True) as content:
        place = content.append(DOMAIN, b"one", [])
        with pytest.raises(ValueError, match="not committed"):
            content.seal(place.segment)
