"""C2SP signed notes, checkpoints, cosignatures and inclusion files: the plain text in which a log speaks.

Sources: signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof (C2SP). Signature types: 0x01, a log's Ed25519 over
the note's text; 0x04, a witness's over the text with a time. Lines of unknown keys or types are kept and passed over.
"""

from __future__ import annotations

from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from tachograph.errors import FormatError
from tachograph.signing.keys import PublicKey, SigningKey
from tachograph.signing.merkle import SIZE, verify_inclusion

LOG_KEY, WITNESS_KEY = 0x01, 0x04
PROOF_HEAD = "c2sp.org/tlog-proof@v1"
_EXTRA = "extra "
MOST_LINES = 64
_MOST_DIGITS = 20  # of a size or an index: 64 bits
_DASH = "\u2014 "


def key_hash(name: str, kind: int, public: PublicKey) -> bytes:
    """Return the four bytes by which a signature line names its key."""
    return sha256(name.encode() + b"\n" + bytes((kind,)) + public.raw).digest()[:4]


@dataclass(frozen=True)
class Verifier:
    """A key under the name that it signs as."""

    name: str
    public: PublicKey
    kind: int = LOG_KEY

    @property
    def hash(self) -> bytes:
        """The four bytes that name it in a signature line."""
        return key_hash(self.name, self.kind, self.public)

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """Read a verifier key (`name+hash+base64`). Raises FormatError, KeyRefused."""
        name, _, rest = text.partition("+")
        digits, _, key = rest.partition("+")
        data = _base64(key)
        if not _is_name(name) or not data or data[0] not in (LOG_KEY, WITNESS_KEY):
            raise FormatError("a verifier key is name+hash+base64 of a known type")
        verifier = cls(name, PublicKey(data[1:]), data[0])
        if verifier.hash.hex() != digits:
            raise FormatError(f"the verifier key of {name} does not have the hash that it states")
        return verifier

    def text(self) -> str:
        """Return it as text."""
        return f"{self.name}+{self.hash.hex()}+{b64encode(bytes((self.kind,)) + self.public.raw).decode()}"


@dataclass(frozen=True)
class Signer:
    """A private key under the name that it signs as."""

    name: str
    key: SigningKey

    @property
    def verifier(self) -> Verifier:
        """What verifies it."""
        return Verifier(self.name, self.key.public)


@dataclass(frozen=True)
class Line:
    """One signature line: name, key hash, and the signature's bytes."""

    name: str
    hash: bytes
    signature: bytes


@dataclass(frozen=True)
class Note:
    """A note's text, which ends in a line end, and its signature lines."""

    text: bytes
    lines: tuple[Line, ...]

    @classmethod
    def parse(cls, data: bytes) -> Note:
        """Read a signed note. Raises FormatError."""
        head, separator, tail = data.rpartition(b"\n\n")
        if not separator or not tail.endswith(b"\n"):
            raise FormatError("a signed note is text, an empty line and signature lines")
        try:
            said = tail.decode()
            (head + b"\n").decode()
        except UnicodeDecodeError:
            raise FormatError("a signed note is UTF-8") from None
        if any(ord(one) < 0x20 and one != "\n" for one in (head + tail).decode()):
            raise FormatError("a signed note has no control characters")
        lines = []
        for line in said[:-1].split("\n"):
            name, _, encoded = line.removeprefix(_DASH).partition(" ")
            data_ = _base64(encoded)
            if not line.startswith(_DASH) or not _is_name(name) or len(data_) < 5:
                raise FormatError(f"not a signature line: {line[:80]!r}")
            lines.append(Line(name, data_[:4], data_[4:]))
        if len(lines) > MOST_LINES:
            raise FormatError(f"more than {MOST_LINES} signature lines")
        return cls(head + b"\n", tuple(lines))

    def data(self) -> bytes:
        """Return the note as it is written."""
        lines = [f"{_DASH}{one.name} {b64encode(one.hash + one.signature).decode()}\n" for one in self.lines]
        return self.text + b"\n" + "".join(lines).encode()

    def verified_by(self, verifier: Verifier) -> int | None:
        """Return 0 where that key signed the note (of a witness: the time, in seconds since 1970); None if not.

        None too where one of its lines does not verify, whatever the others do (signed-note: reject the whole note).
        """
        lines = [line for line in self.lines if line.name == verifier.name and line.hash == verifier.hash]
        times = [_time_of(line, self.text, verifier) for line in lines]
        return None if None in times else max((at for at in times if at is not None), default=None)


def _time_of(line: Line, text: bytes, verifier: Verifier) -> int | None:
    if verifier.kind == LOG_KEY:
        return 0 if verifier.public.verify(line.signature, text) else None
    at = int.from_bytes(line.signature[:8], "big")
    whole = len(line.signature) == 72 and verifier.public.verify(line.signature[8:], cosigned(text, at))
    return at if whole else None


def cosigned(text: bytes, at: int) -> bytes:
    """Return what a witness signs: the checkpoint with a time in seconds since 1970 (tlog-cosignature, v1)."""
    return b"cosignature/v1\ntime %d\n" % at + text


def sign(text: bytes, signers: Sequence[Signer]) -> bytes:
    """Return a signed note."""
    lines = [Line(one.name, one.verifier.hash, one.key.sign(text)) for one in signers]
    return Note(text, tuple(lines)).data()


def cosign(data: bytes, name: str, key: SigningKey, *, at: int) -> bytes:
    """Return a note with one more signature: a witness's, at a time in seconds since 1970. Raises FormatError."""
    read = Note.parse(data)
    stamp = at.to_bytes(8, "big") + key.sign(cosigned(read.text, at))
    line = Line(name, key_hash(name, WITNESS_KEY, key.public), stamp)
    return Note(read.text, (*read.lines, line)).data()


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What a log states: its origin, how many leaves it has, their head."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def body(self) -> bytes:
        """Return the text that is signed (tlog-checkpoint)."""
        lines = [self.origin, str(self.size), b64encode(self.root).decode(), *self.extensions]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes) -> Checkpoint:
        """Read a checkpoint from a note or from its text alone. Raises FormatError."""
        text = Note.parse(data).text if b"\n\n" in data else data
        try:
            lines = text.decode().split("\n")
        except UnicodeDecodeError:
            raise FormatError("a checkpoint is UTF-8") from None
        if len(lines) < 4 or lines[-1]:
            raise FormatError("a checkpoint is origin, size and root, each on its line")
        origin, size, root = lines[:3]
        head = _base64(root)
        if not origin or (count := _decimal(size)) is None or len(head) != SIZE:
            raise FormatError("a checkpoint is origin, decimal size and the base64 of a 32-byte root")
        return cls(origin=origin, size=count, root=head, extensions=tuple(lines[3:-1]))


@dataclass(frozen=True)
class Proof:
    """An inclusion proof that stands alone: the leaf's place, its audit path, the checkpoint (tlog-proof).

    `extra` is vouched for by nobody.
    """

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None

    def data(self) -> bytes:
        """Return the file."""
        extra = [] if self.extra is None else [_EXTRA + b64encode(self.extra).decode()]
        path = [b64encode(one).decode() for one in self.path]
        return "\n".join([PROOF_HEAD, *extra, f"index {self.index}", *path, "", ""]).encode() + self.checkpoint

    @classmethod
    def parse(cls, data: bytes) -> Proof:
        """Read a file. Raises FormatError."""
        head, separator, checkpoint = data.partition(b"\n\n")
        try:
            lines = head.decode("ascii").split("\n")
        except UnicodeDecodeError:
            raise FormatError("a tlog-proof's head is ASCII") from None
        if not separator or lines.pop(0) != PROOF_HEAD:
            raise FormatError(f"a tlog-proof begins with {PROOF_HEAD}")
        extra = _base64(lines.pop(0).removeprefix(_EXTRA)) if lines and lines[0].startswith(_EXTRA) else None
        word, _, said = (lines.pop(0) if lines else "").partition(" ")
        path = tuple(_base64(line) for line in lines)
        if word != "index" or (index := _decimal(said)) is None or any(len(one) != SIZE for one in path):
            raise FormatError("a tlog-proof is an index and hashes of 32 bytes")
        return cls(index, path, checkpoint, extra)

    def verify(self, hashed: bytes, log: Verifier) -> Checkpoint | None:
        """Return the checkpoint that the log signed and under which the leaf stands; None where either fails.

        Raises FormatError where the checkpoint is none.
        """
        said = Checkpoint.parse(self.checkpoint)
        if said.origin != log.name or Note.parse(self.checkpoint).verified_by(log) is None:
            return None
        return said if verify_inclusion(hashed, self.index, said.size, self.path, said.root) else None


def _is_name(text: str) -> bool:
    return bool(text) and "+" not in text and not any(one.isspace() for one in text)


def _decimal(text: str) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or (text[0] == "0" and text != "0"):
        return None
    return int(text)


def _base64(text: str) -> bytes:
    try:
        data = a2b_base64(text.encode("ascii"), strict_mode=True) if text else b""
    except (Base64Error, UnicodeEncodeError):
        raise FormatError(f"not base64: {text[:80]!r}") from None
    return data
