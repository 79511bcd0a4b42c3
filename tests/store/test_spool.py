"""The spool keeps every acknowledged frame, names every byte that was changed, and never reads a wrong frame."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tachograph.errors import DamagedStore
from tachograph.store import sealedbox, spool
from tachograph.store.spool import HEADER_SIZE, Spool, destroy, is_live
from tachograph.store.spool_reading import Reading, read_spool
from tests.seams.driver import new_keys

PRIVATE, PUBLIC = new_keys()
FRAMES = [b"first", b"", b"third" * 40, b"\x00" * 17, b"fifth", b"the last one"]
RECORD = 4 + spool.TAG_SIZE  # what a record needs beyond its frame


def written(folder: Path, frames: list[bytes], name: str = "run.1.a") -> Path:
    """A closed spool file that holds these frames."""
    one = Spool(str(folder), name, public=PUBLIC)
    assert all(one.append(frame) for frame in frames)
    one.close()
    return Path(one.path)


def read(path: Path) -> Reading:
    """What a file holds: the same whether its frames are kept in memory or read when they are asked for."""
    reading = read_spool(str(path), private=PRIVATE, keep=1 << 30)
    from_disk = read_spool(str(path), private=PRIVATE, keep=0)
    assert list(from_disk.frames) == reading.frames
    assert (from_disk.damage, list(from_disk.numbers)) == (reading.damage, list(reading.numbers))
    return reading


def starts(frames: list[bytes]) -> list[int]:
    """The offset of each record, and the file's end."""
    at = [HEADER_SIZE]
    for frame in frames:
        at.append(at[-1] + RECORD + len(frame))
    return at


def other_program(source: str, *args: str) -> subprocess.Popen[str]:
    """A program of its own that can import Spool, with the public key as its first argument."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), PUBLIC.hex(), *args], stdout=subprocess.PIPE, text=True
    )


def output_of(source: str, *args: str) -> str:
    with other_program(source, *args) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spool file to be copied and damaged."""
    return written(tmp_path_factory.mktemp("whole"), FRAMES)


@pytest.fixture
def broken(whole: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it, with its key, to be overwritten as a test likes."""
    copy = tmp_path / whole.name
    copy.write_bytes(whole.read_bytes())
    copy.with_suffix(".key").write_bytes(whole.with_suffix(".key").read_bytes())
    return copy


# --- what was acknowledged --------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=300), max_size=12))
def test_every_acknowledged_frame_is_read_back(tmp_path_factory: pytest.TempPathFactory, frames: list[bytes]) -> None:
    reading = read(written(tmp_path_factory.mktemp("spool"), frames))
    assert (reading.frames, reading.damage, reading.gap) == (frames, [], False)


def test_a_large_frame_is_one_record(tmp_path: Path) -> None:
    frame = os.urandom(5 << 20)
    assert read(written(tmp_path, [frame, b"next"])).frames == [frame, b"next"]


def test_a_frame_in_parts_of_any_size_is_one_record_and_buffers_leave_nothing_behind(tmp_path: Path) -> None:
    one = Spool(str(tmp_path), "run.1.a", public=PUBLIC)
    sizes = [0, 1, spool._LARGE - 1, spool._LARGE, 100_000, 7, 300_000, 70_000, spool._KEPT + 9, 100_000, 3]
    frames = [(b"head", b"", b"m" * (size % 97), os.urandom(size)) for size in sizes]
    assert all(one.append(*parts) for parts in frames)
    one.close()
    reading = read(Path(one.path))
    assert reading.frames == [b"".join(parts) for parts in frames]
    assert reading.damage == []
    assert len(one._record) <= spool._KEPT, "a frame larger than that has memory of its own"


def test_a_cryptography_that_cannot_encrypt_into_a_buffer_writes_the_same_records(tmp_path: Path) -> None:
    one = Spool(str(tmp_path), "run.1.a", public=PUBLIC)
    one._encrypt_into = None
    frames = [os.urandom(size) for size in (10, 50_000, 2 << 20, 40_000)]
    assert all(one.append(b"head", frame) for frame in frames)
    one.close()
    assert read(Path(one.path)).frames == [b"head" + frame for frame in frames]


def test_a_frame_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    one = Spool(str(tmp_path), "run.1.a", public=PUBLIC)
    for count in range(1, 4):
        assert one.append(b"frame")
        assert len(read(Path(one.path)).frames) == count
    one.close()


def test_nothing_of_a_frame_is_readable_on_disk_and_only_its_owner_may_look(tmp_path: Path) -> None:
    marker = b"The patient's name is Ada Example"
    path = written(tmp_path, [marker, marker * 3])
    for file in tmp_path.iterdir():
        assert marker[:8] not in file.read_bytes()
        assert file.stat().st_mode & 0o777 == 0o600
    assert read(path).frames[0] == marker


def test_equal_frames_do_not_look_equal_on_disk(tmp_path: Path) -> None:
    data = written(tmp_path, [b"x" * 64] * 2).read_bytes()
    first, second, end = starts([b"x" * 64] * 2)
    assert data[first + 4 : second] != data[second + 4 : end]


def test_an_existing_spool_file_is_never_written_over(tmp_path: Path) -> None:
    path = written(tmp_path, [b"kept"])
    with pytest.raises(FileExistsError):
        Spool(str(tmp_path), "run.1.a", public=PUBLIC)
    assert read(path).frames == [b"kept"]


def test_a_folder_that_is_not_there_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Spool(str(tmp_path / "none"), "run.1.a", public=PUBLIC)


def test_a_closed_spool_keeps_nothing_and_says_so(tmp_path: Path) -> None:
    one = Spool(str(tmp_path), "run.1.a", public=PUBLIC)
    one.close()
    one.close()
    assert not one.append(b"late")
    assert one.failed
    assert read(Path(one.path)).frames == []


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_tail_torn_at_any_byte_leaves_the_earlier_frames_and_is_named(whole: Path, broken: Path) -> None:
    data, borders = whole.read_bytes(), starts(FRAMES)
    for end in range(HEADER_SIZE, len(data)):
        broken.write_bytes(data[:end])
        reading = read(broken)
        count = sum(border <= end for border in borders) - 1
        assert reading.frames == FRAMES[:count]
        if end in borders:
            assert reading.damage == [], "a file that ends with a whole record is all that was acknowledged"
        else:
            (said,) = reading.damage
            assert broken.name in said
            assert f"byte {borders[count]}" in said
            assert f"{end - borders[count]} bytes left out" in said


def test_one_flipped_bit_anywhere_names_its_record_and_nothing_else_is_wrong(whole: Path, broken: Path) -> None:
    data, borders = whole.read_bytes(), starts(FRAMES)
    for bit in range(8 * HEADER_SIZE, 8 * len(data), 7):  # 7 and 8 have no common divisor: each bit has its turn
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        broken.write_bytes(damaged)
        reading = read(broken)
        number = sum(border <= bit // 8 for border in borders) - 1
        assert reading.frames == FRAMES[:number] + FRAMES[number + 1 :], f"bit {bit}"
        (said,) = reading.damage
        assert f"record {number} at byte {borders[number]} " in said


def test_one_flipped_bit_in_the_header_is_refused_with_the_files_name(whole: Path, broken: Path) -> None:
    data = whole.read_bytes()
    for bit in range(8 * HEADER_SIZE):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        broken.write_bytes(damaged)
        with pytest.raises(DamagedStore, match=broken.name):
            read(broken)


@pytest.mark.parametrize("end", range(HEADER_SIZE))
def test_a_header_cut_short_is_refused(whole: Path, broken: Path, end: int) -> None:
    broken.write_bytes(whole.read_bytes()[:end])
    with pytest.raises(DamagedStore, match="header"):
        read(broken)


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(FRAMES) - 1), max_size=9))
def test_records_moved_repeated_or_dropped_are_found(
    tmp_path_factory: pytest.TempPathFactory, whole: Path, order: list[int]
) -> None:
    data, at = whole.read_bytes(), starts(FRAMES)
    records = [data[start:end] for start, end in itertools.pairwise(at)]
    copy = tmp_path_factory.mktemp("moved") / whole.name
    copy.write_bytes(data[:HEADER_SIZE] + b"".join(records[number] for number in order))
    copy.with_suffix(".key").write_bytes(whole.with_suffix(".key").read_bytes())
    reading = read(copy)
    rest = iter(FRAMES)
    assert all(frame in rest for frame in reading.frames), "no frame twice, none out of its place"
    if order != list(range(len(order))):
        assert reading.damage
        assert "record" in reading.damage[0]


def test_a_record_of_another_file_is_found(whole: Path, broken: Path, tmp_path: Path) -> None:
    other = written(tmp_path, FRAMES, "run.2.b").read_bytes()
    first, second = starts(FRAMES)[:2]
    data = whole.read_bytes()
    broken.write_bytes(data[:first] + other[first:second] + data[second:])
    assert read(broken).frames == FRAMES[1:]
    assert "record 0 " in read(broken).damage[0]


def test_a_changed_record_and_a_torn_tail_leave_all_others(whole: Path, broken: Path) -> None:
    borders = starts(FRAMES)
    for end in range(borders[1], borders[-1], 5):
        data = bytearray(whole.read_bytes()[:end])
        data[borders[0] + 5] ^= 4
        broken.write_bytes(data)
        assert read(broken).frames == FRAMES[1 : sum(border <= end for border in borders) - 1]


def test_a_file_of_many_changed_records_is_read_in_reasonable_time(tmp_path: Path) -> None:
    frames = [b"%d" % number * 20 for number in range(4000)]
    path = written(tmp_path, frames)
    first, second = starts(frames)[:2]
    data = path.read_bytes()
    path.write_bytes(data[:first] + data[second:])  # every record now stands in its neighbour's place
    reading = read(path)
    assert reading.frames == []
    assert len(reading.damage) == 3999


def test_two_damaged_records_side_by_side_do_not_take_the_rest_with_them(whole: Path, broken: Path) -> None:
    data, at = bytearray(whole.read_bytes()), starts(FRAMES)
    for number in (1, 2):
        data[at[number] + 6] ^= 1
    broken.write_bytes(data)
    assert read(broken).frames == [FRAMES[0], *FRAMES[3:]]
    assert len(read(broken).damage) == 2


def test_another_private_key_is_refused(whole: Path) -> None:
    with pytest.raises(DamagedStore, match=whole.name):
        read_spool(str(whole), private=new_keys()[0])


def test_a_spool_file_without_its_key_is_refused(broken: Path) -> None:
    broken.with_suffix(".key").unlink()
    with pytest.raises(DamagedStore, match="key file is gone"):
        read(broken)


def test_the_key_of_another_spool_file_does_not_open_it(broken: Path, tmp_path: Path) -> None:
    other = written(tmp_path, FRAMES, "run.2.b")
    broken.with_suffix(".key").write_bytes(other.with_suffix(".key").read_bytes())
    with pytest.raises(DamagedStore):
        read(broken)


def test_destroying_takes_the_key_and_the_file(broken: Path) -> None:
    destroy(str(broken))
    assert list(broken.parent.iterdir()) == []
    destroy(str(broken))  # a second time, after a crash in between, changes nothing


def test_destroying_overwrites_the_key_before_it_is_unlinked(broken: Path) -> None:
    with broken.with_suffix(".key").open("rb") as still_open:
        destroy(str(broken))
        assert still_open.read() == bytes(sealedbox.WRAPPED_SIZE)


# --- a disk that is full ----------------------------------------------------------------------------------------------

FULL_DISK = """
    import os, resource, sys
    from tachograph.store.spool import Spool
    told = []
    one = Spool(sys.argv[2], "run.1.a", public=bytes.fromhex(sys.argv[1]), on_failure=told.append)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
    answers = [one.append(b"frame %d " % number * 10) for number in range(40)]
    print(answers.index(False), any(answers[answers.index(False):]), len(told), type(told[0]).__name__, one.failed)
"""


@pytest.mark.parametrize("limit", [21, 22, 60, 1000, 1100, 1101])
def test_a_full_disk_ends_the_spool_with_a_whole_record_and_one_word(tmp_path: Path, limit: int) -> None:
    kept, later, told, error, failed = output_of(FULL_DISK, str(tmp_path), str(limit)).split()
    assert (later, told, error, failed) == ("False", "1", "OSError", "True")
    path = tmp_path / "run.1.a.spool"
    reading = read(path)
    assert reading.frames == [b"frame %d " % number * 10 for number in range(int(kept))]
    assert reading.damage == [], "the half record was taken away again"
    assert reading.gap, "the renamed key says that frames are missing"
    assert not path.with_suffix(".key").exists()
    assert path.stat().st_size <= limit


def test_a_disk_too_full_for_the_header_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    source = """
        import resource, sys
        from tachograph.store.spool import Spool
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
        try:
            Spool(sys.argv[2], "run.1.a", public=bytes.fromhex(sys.argv[1]))
        except OSError as fault:
            print(fault.errno)
    """
    for limit in (0, 3, sealedbox.WRAPPED_SIZE - 1):
        assert output_of(source, str(tmp_path), str(limit)).strip() in ("27", "28")
        assert list(tmp_path.iterdir()) == []


# --- re-entrance, threads, forks, kills -------------------------------------------------------------------------------


def test_frames_appended_by_a_signal_handler_are_all_kept(tmp_path: Path) -> None:
    source = """
        import itertools, signal, sys
        from tachograph.store.spool import Spool
        one = Spool(sys.argv[2], "run.1.a", public=bytes.fromhex(sys.argv[1]))
        numbers, acknowledged = itertools.count(), []
        def handler(*_):
            number = next(numbers)
            if one.append(b"handler %d" % number, b" " * 20_000 * (number % 2)):
                acknowledged.append(number)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        number = 0
        while len(acknowledged) < 300:
            assert one.append(b"main %d" % number, b" " * 30_000 * (number % 3 == 0))
            number += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        one.close()
        print(number, len(acknowledged))
    """
    main, handled = map(int, output_of(source, str(tmp_path)).split())
    reading = read(tmp_path / "run.1.a.spool")
    assert reading.damage == []
    frames = [frame.rstrip(b" ") for frame in reading.frames]
    assert [frame for frame in frames if frame.startswith(b"main")] == [b"main %d" % n for n in range(main)]
    assert {frame for frame in frames if frame.startswith(b"h")} == {b"handler %d" % n for n in range(handled)}
    assert len(reading.frames) == main + handled


def test_an_exception_of_the_programs_own_signal_handler_passes_and_costs_no_frame(tmp_path: Path) -> None:
    """A time-out raised in the midst of an append is the program's: it passes, and no record's number is used twice."""
    source = """
        import signal, sys
        from tachograph.store.spool import Spool
        told = []
        one = Spool(sys.argv[2], "run.1.a", public=bytes.fromhex(sys.argv[1]), on_failure=told.append)
        raised = 0
        def handler(*_):
            global raised
            raised += 1
            raise TimeoutError(f"number {raised}")
        signal.signal(signal.SIGALRM, handler)
        kept, caught, number = [], 0, 0
        while caught < 400 and not one.failed:
            number += 1
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00005 + number % 50 * 0.000002)
                while not one.failed:
                    frame = b"frame %d %d" % (number, len(kept))
                    if one.append(frame):
                        kept.append(frame)
            except TimeoutError:
                caught += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        one.close()
        print(raised, caught, len(told), kept == [] or len(kept))
        open(sys.argv[2] + "/kept", "wb").write(b"\\n".join(kept))
    """
    raised, caught, told, count = map(int, output_of(source, str(tmp_path)).split())
    assert raised == caught, "the program saw each of its own exceptions"
    assert told == 0
    reading = read(tmp_path / "run.1.a.spool")
    assert reading.damage == []
    kept = (tmp_path / "kept").read_bytes().split(b"\n")
    assert len(kept) == count > 400
    rest = iter(reading.frames)
    assert all(frame in rest for frame in kept), "every acknowledged frame, in order"


def test_a_frame_appended_by_a_finaliser_is_kept(tmp_path: Path) -> None:
    one = Spool(str(tmp_path), "run.1.a", public=PUBLIC)

    class Last(bytes):
        def __del__(self) -> None:
            one.append(b"finaliser")

    for _ in range(20):
        assert one.append(Last(b"frame"))
    one.close()
    frames = read(Path(one.path)).frames
    assert frames.count(b"frame") == frames.count(b"finaliser") == 20


def test_threads_may_append_at_once(tmp_path: Path) -> None:
    one = Spool(str(tmp_path), "run.1.a", public=PUBLIC)

    def append(name: int) -> None:
        for number in range(200):
            assert one.append(b"%d %d" % (name, number))

    threads = [threading.Thread(target=append, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one.close()
    reading = read(Path(one.path))
    assert reading.damage == []
    for name in range(6):
        own = [frame for frame in reading.frames if frame.startswith(b"%d " % name)]
        assert own == [b"%d %d" % (name, number) for number in range(200)]


def test_a_child_after_a_fork_has_a_file_of_its_own_and_the_parents_goes_on(tmp_path: Path) -> None:
    source = """
        import os, sys
        from tachograph.store.spool import Spool, is_live
        public = bytes.fromhex(sys.argv[1])
        one = Spool(sys.argv[2], "run.1.a", public=public)
        one.append(b"before")
        child = os.fork()
        if child == 0:
            one.forget()
            assert not one.append(b"never")
            two = Spool(sys.argv[2], "run.2.b", public=public)
            two.append(b"child")
            os._exit(0)
        os.waitpid(child, 0)
        one.append(b"after")
        print(is_live(one.path))
    """
    assert output_of(source, str(tmp_path)).strip() == "True", "the child's end did not let go of the parent's lock"
    parent, child = read(tmp_path / "run.1.a.spool"), read(tmp_path / "run.2.b.spool")
    assert parent.frames == [b"before", b"after"]
    assert child.frames == [b"child"]
    assert parent.file_id != child.file_id
    assert (tmp_path / "run.1.a.key").read_bytes() != (tmp_path / "run.2.b.key").read_bytes()


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.01])
def test_a_kill_in_the_middle_loses_no_acknowledged_frame(tmp_path: Path, delay: float) -> None:
    source = """
        import os, sys
        from tachograph.store.spool import Spool
        one = Spool(sys.argv[2], "run.1.a", public=bytes.fromhex(sys.argv[1]))
        for number in range(10**9):
            assert one.append(b"%d " % number + b"x" * (number % 3000))
            os.write(1, b"%d\\n" % number)
    """
    with other_program(source, str(tmp_path)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait(delay)
        process.send_signal(signal.SIGKILL)
        acknowledged = [0, *map(int, process.stdout.read().split("\n")[:-1])]
    reading = read(tmp_path / "run.1.a.spool")
    assert len(reading.frames) >= len(acknowledged)
    assert reading.frames == [b"%d " % n + b"x" * (n % 3000) for n in range(len(reading.frames))]
    assert len(reading.damage) <= 1


def test_a_spool_file_is_live_while_its_process_lives(tmp_path: Path) -> None:
    source = """
        import signal, sys
        from tachograph.store.spool import Spool
        one = Spool(sys.argv[2], "run.1.a", public=bytes.fromhex(sys.argv[1]))
        print("open", flush=True)
        signal.pause()
    """
    path = str(tmp_path / "run.1.a.spool")
    assert not is_live(path), "a file that is not there is not live"
    with other_program(source, str(tmp_path)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert is_live(path)
        assert is_live(path), "asking changes nothing"
        process.kill()
        process.wait()
        assert not is_live(path)


def test_a_program_started_by_a_recorded_one_does_not_keep_its_file_live(tmp_path: Path) -> None:
    one = Spool(str(tmp_path), "run.1.a", public=PUBLIC)
    argv = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as started:
        assert started.stdout is not None
        started.stdout.readline()  # the kernel lets the parent go on a moment before the child's descriptors are closed
        assert is_live(one.path)
        one.close()
        assert not is_live(one.path)
        started.kill()
