"""The spool: where frames lie first.

One append-only file per process of a run, `<run id>.<pid>.<n>.spool`, with its wrapped key beside it in `.key`. A frame
is encrypted (AES-256-GCM, the record's number as nonce under a key used for this file only) and handed to the kernel in
one write before the call it describes goes out: a page-cache write survives `kill -9`. Invariants:

- record k decrypts only as record k of this file: no frame can be dropped, moved or repeated unseen but at the end;
- a write that fails takes its half record away again, closes the spool and is told once to `on_failure`; later frames
  are refused silently (the program goes on, the gap is named by the renamed key file `.gap.key`: a rename works on a
  full disk);
- a process holds an exclusive `flock` on its file while it lives, so that intake leaves open files alone;
- after `fork` the child must open a file of its own (`Spool.forget` closes the inherited descriptor without a word).

Re-entrance: a finaliser or a signal handler may append while an append is under way in the same thread; such frames
wait in a list and follow at once. A frame comes in parts, and a large one is put together and encrypted in two buffers
that are kept: fresh memory of that size costs page faults, more than AES-GCM itself (100 KB: 57 us instead of 210, of
which the write is 40). Runs inside recorded programs; standard library plus AES-GCM.
"""

from __future__ import annotations

import fcntl
import os
from _thread import RLock
from os import write
from struct import Struct

from tachograph.store import sealedbox
from tachograph.store.disk import DISK, Disk

TYPE_CHECKING = False  # not from typing: that import costs a recorded program 7 ms
if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = b"TSPL\x01"
HEADER_SIZE = len(MAGIC) + 16
_LENGTH = Struct("<I")
_NONCE = Struct("<QI")
TAG_SIZE = 16
LARGEST = 1 << 31  # AES-GCM's one-shot calls take less than 2^31 bytes
_LARGE = 1 << 14  # bytes of a part: below it, memory comes from what the allocator holds anyway
_KEPT = 1 << 20  # bytes: the largest buffer that stays; a larger frame gets memory of its own for as long as it takes


class Spool:
    """An open spool file that this process appends to."""

    __slots__ = (
        "_aad", "_busy", "_encrypt", "_encrypt_into", "_fd", "_lock", "_on_failure", "_plain", "_record", "_size",
        "_under_way", "_waiting", "path", "records",
    )  # fmt: skip

    def __init__(
        self, folder: str, name: str, *, public: bytes, on_failure: Callable[[BaseException], None] | None = None
    ) -> None:
        """Create `<folder>/<name>.spool` and its key file. Raises OSError if the folder cannot be written."""
        key, file_id = sealedbox.fresh_key(), os.urandom(16)
        self.path = os.path.join(folder, name + ".spool")
        key_path = os.path.join(folder, name + ".key")
        _create(key_path, sealedbox.wrap(key, file_id=file_id, public=public))
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._fd = _above_standard_streams(os.open(self.path, flags, 0o600))
            fcntl.flock(self._fd, fcntl.LOCK_EX)  # waits for nobody but an `is_live` that looks just now
            if os.write(self._fd, MAGIC + file_id) != HEADER_SIZE:
                raise OSError(28, "no space left for a spool file", self.path)
        except OSError:
            _remove(self.path)
            _remove(key_path)
            raise
        self._aad = MAGIC + file_id
        cipher = sealedbox.cipher(key)
        self._encrypt = cipher.encrypt
        # Not in the older versions of cryptography that a program may bring.
        self._encrypt_into: Callable[..., int] | None = getattr(cipher, "encrypt_into", None)
        self._plain = self._record = memoryview(b"")
        self._lock = RLock()
        self._busy = False
        self._waiting: list[tuple[bytes, ...]] = []
        self._on_failure = on_failure
        self._size = HEADER_SIZE
        self._under_way = 0
        self.records = 0

    def append(self, *parts: bytes) -> bool:
        """Encrypt and write one frame, given in parts, the longest last.

        Returns False when the spool has failed or is closed: nothing was kept.
        """
        with self._lock:
            if self._fd < 0:
                return False
            if self._busy:
                self._waiting.append(parts)
                return True
            self._busy = True
            try:
                while True:  # in one piece: after a pause of the program each call of a function costs a microsecond
                    nonce = _NONCE.pack(self.records, 0)
                    record: bytes | memoryview
                    if len(parts[-1]) < _LARGE:
                        sealed = self._encrypt(nonce, b"".join(parts), self._aad)
                        record = _LENGTH.pack(len(sealed)) + sealed
                    else:
                        record = self._in_buffers(nonce, parts)
                    wanted = self._under_way = len(record)
                    written = write(self._fd, record)
                    if written != wanted:
                        rest = memoryview(record)[written:]
                        while rest:
                            rest = rest[write(self._fd, rest) :]
                    self._size += wanted
                    self.records += 1
                    if not self._waiting:
                        return True
                    parts = self._waiting.pop(0)
            except BaseException as fault:  # the program's edge: recording fails, the program goes on
                if _is_the_programs(fault):
                    self._settle(fault)
                    raise
                self._fail(fault)
                return False
            finally:
                self._busy = False

    def _in_buffers(self, nonce: bytes, parts: tuple[bytes, ...]) -> memoryview:
        """Make a record without fresh memory. The lock and `_busy` keep everybody else from the buffers meanwhile."""
        length = sum(map(len, parts))
        wanted = _LENGTH.size + length + TAG_SIZE
        plain, record = self._plain, self._record
        if len(record) < wanted:
            size = 1 << wanted.bit_length() if wanted < _KEPT else wanted
            plain, record = memoryview(bytearray(size)), memoryview(bytearray(size))
            if wanted < _KEPT:
                self._plain, self._record = plain, record
        at = 0
        for part in parts:
            plain[at : at + len(part)] = part
            at += len(part)
        _LENGTH.pack_into(record, 0, length + TAG_SIZE)
        if self._encrypt_into is not None:
            self._encrypt_into(nonce, plain[:length], self._aad, record[_LENGTH.size : wanted])
        else:
            record[_LENGTH.size : wanted] = self._encrypt(nonce, plain[:length], self._aad)
        return record[:wanted]

    def _settle(self, fault: BaseException) -> None:
        """After the program's exception in the midst of a write: count the record if it stands whole in the file."""
        size = os.fstat(self._fd).st_size
        if size == self._size:
            return
        if size != self._size + self._under_way:
            self._fail(fault)  # a part of it got out: its number must not seal another frame
            return
        self._size = size
        self.records += 1

    def _fail(self, fault: BaseException) -> None:
        fd, self._fd = self._fd, -1
        try:
            os.ftruncate(fd, self._size)
        except OSError:
            pass
        try:
            os.rename(self.path[:-6] + ".key", self.path[:-6] + ".gap.key")
        except OSError:
            pass
        os.close(fd)
        if self._on_failure is not None:
            self._on_failure(fault)

    @property
    def failed(self) -> bool:
        """Whether nothing is kept any more."""
        return self._fd < 0

    def close(self) -> None:
        """Close the file (its lock goes with it). Appending afterwards keeps nothing."""
        with self._lock:
            if self._waiting:
                self.append(*self._waiting.pop(0))
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def forget(self) -> None:
        """After a fork, in the child: drop the inherited descriptor; the parent's lock and file stay as they are."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _is_the_programs(fault: BaseException) -> bool:
    """Say whether an exception came out of the program's own code: its signal handler ran in the midst of an append."""
    place = fault.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return not isinstance(fault, Exception) or (place is not None and place.tb_frame.f_globals is not globals())


def first_gap(folder: str, run_id: str) -> str | None:
    """Return the first of a run's spool files on which a write failed (its path), None for none.

    That file's process tells the user, and the others do not: a run says one line.
    """
    try:
        names = [name for name in os.listdir(folder) if name.startswith(run_id) and name.endswith(".gap.key")]
        failed = sorted((os.stat(os.path.join(folder, name)).st_ctime_ns, name) for name in names)
    except OSError:
        return None
    return os.path.join(folder, failed[0][1][: -len(".gap.key")] + ".spool") if failed else None


def is_live(path: str) -> bool:
    """Say whether a living process still appends to this spool file (it holds the file's lock)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def destroy(path: str, *, disk: Disk = DISK) -> None:
    """Destroy a spool file that has been sealed: its key first, then the file (capture-v1 rule 5 (g))."""
    for key in (path[:-6] + ".key", path[:-6] + ".gap.key"):
        try:
            fd = os.open(key, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            disk.write(fd, bytes(os.fstat(fd).st_size))
            disk.sync(fd)
        finally:
            os.close(fd)
        disk.remove(key)
    disk.remove(path)


def _above_standard_streams(fd: int) -> int:
    """The same file under a number that no standard stream has: a program whose stdout is closed sees it closed."""
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _create(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if os.write(fd, data) != len(data):
            raise OSError(28, "no space left for a spool key", path)
    except OSError:
        _remove(path)
        raise
    finally:
        os.close(fd)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
