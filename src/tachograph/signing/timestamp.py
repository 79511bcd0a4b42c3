"""RFC 3161 time stamps: asking an authority, and what its answer proves (evidence.md, "Time").

Guarantees:

- a token counts only under a root that the verifier brought. Certificates that came with the evidence may fill a chain
  below such a root; they never are one, whatever they call themselves;
- the chain is judged at the token's own time, so that a token outlives its certificates;
- what does not count is `NotStamped` with a reason; `Stamp` says between which times the bytes existed at the latest.

The bytes of an answer are kept as they came. OpenSSL's authority writes the certificates of an answer in the order of
its configuration, which DER forbids and the parser refuses; nobody signs that order, so it is put right for parsing.

Needs the extra `evidence`; without it every function raises ExtraMissing with the command.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from tachograph.errors import ExtraMissing, FormatError

INSTALL = "pip install 'tachograph[evidence]'"
REQUEST_TYPE, RESPONSE_TYPE = "application/timestamp-query", "application/timestamp-reply"
MOST_BYTES = 1 << 18  # of an answer; those with a chain of three are below 8 KB
MOST_CERTIFICATES = 64


@dataclass(frozen=True)
class Asked:
    """A request: its DER, to be posted to an authority, and the nonce that the answer must repeat."""

    data: bytes
    nonce: int


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What an authority states, verified: these bytes existed at `at`, give or take `accuracy` (milliseconds)."""

    at: int
    accuracy: int
    serial: int
    policy: str
    authority: str

    @property
    def before(self) -> int:
        """The time, in milliseconds since 1970, at which they existed at the latest."""
        return self.at + self.accuracy


@dataclass(frozen=True)
class NotStamped:
    """An answer that proves no time here, and why: a stable code, and a sentence."""

    reason: str
    message: str


def _library() -> Any:
    try:
        return importlib.import_module("rfc3161_client")
    except ImportError as error:
        raise ExtraMissing(
            f"Time stamps of an authority are read by an extra that is not installed: {INSTALL}"
        ) from error


def ask(message: bytes) -> Asked:
    """Return a request for a time stamp over the SHA-256 of some bytes. Raises ExtraMissing, ValueError for none."""
    library = _library()
    builder = library.TimestampRequestBuilder().data(message).hash_algorithm(library.HashAlgorithm.SHA256)
    request = builder.nonce(nonce=True).cert_request(cert_request=True).build()
    return Asked(bytes(request.as_bytes()), int(request.nonce))


def certificates(pem: bytes) -> list[x509.Certificate]:
    """Read the certificates of a PEM file. Raises FormatError."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError as fault:
        raise FormatError(f"no PEM certificates: {fault}") from None
    if len(found) > MOST_CERTIFICATES:
        raise FormatError(f"more than {MOST_CERTIFICATES} certificates in one file")
    return found


def chain(response: bytes) -> list[bytes]:
    """Return the certificates that came with an answer, as PEM. Raises ExtraMissing, FormatError."""
    try:
        held = sorted(_parsed(response).signed_data.certificates)
        return [x509.load_der_x509_certificate(one).public_bytes(Encoding.PEM) for one in held]
    except ValueError as fault:
        raise FormatError(f"no time stamp: {fault}") from None


def verify(
    response: bytes, message: bytes, *, roots: Sequence[x509.Certificate],
    others: Sequence[x509.Certificate] = (), nonce: int | None = None, policy: str | None = None,
) -> Stamp | NotStamped:  # fmt: skip
    """Check an authority's answer over some bytes.

    `roots` the verifier brought; `others` may have come with the evidence. Raises ExtraMissing.
    """
    library = _library()
    if not roots:
        return NotStamped("no_root", "no certificate of an authority that you know")
    try:
        parsed = _parsed(response)
        at = parsed.tst_info.gen_time.replace(tzinfo=UTC)
        builder = library.VerifierBuilder(
            policy_id=None if policy is None else x509.ObjectIdentifier(policy),
            roots=list(roots), intermediates=_below(roots, others, at), nonce=nonce,
        )  # fmt: skip
        builder.build().verify_message(parsed, message)
        return _stamp(parsed, at)
    except ValueError as fault:
        return NotStamped("timestamp_format", f"no time stamp that can be read: {fault}")
    except library.VerificationError as fault:
        return NotStamped("timestamp_refused", f"the time stamp does not hold: {fault}")


def _parsed(response: bytes) -> Any:
    """Parse an answer. Raises ValueError."""
    if len(response) > MOST_BYTES:
        raise ValueError(f"over {MOST_BYTES} bytes")
    decode = _library().decode_timestamp_response
    try:
        parsed = decode(response)
    except ValueError:
        parsed = decode(in_order(response))
    if parsed.status != 0:
        said = "; ".join(str(one)[:200] for one in parsed.status_string)
        raise ValueError(f"the authority refused, status {parsed.status}: {said!a}")
    return parsed


def _stamp(parsed: Any, at: datetime) -> Stamp:
    info = parsed.tst_info
    accuracy = info.accuracy
    micros = 0
    if accuracy is not None:
        micros = (accuracy.seconds or 0) * 1_000_000 + (accuracy.millis or 0) * 1000 + (accuracy.micros or 0)
    (signer,) = parsed.signed_data.signer_infos
    return Stamp(
        at=round(at.timestamp() * 1000), accuracy=-(-micros // 1000), serial=int(info.serial_number),
        policy=info.policy.dotted_string, authority=f"{signer.issuer.rfc4514_string()}, no. {signer.serial_number:x}",
    )  # fmt: skip


def _below(
    roots: Sequence[x509.Certificate], others: Sequence[x509.Certificate], at: datetime
) -> list[x509.Certificate]:
    """Return those of the other certificates that lead to a root: authorities, valid at that time, issued below one.

    The library takes whatever it is handed as an intermediate for as trusted as a root.
    """
    trusted = list(roots)
    left = [one for one in others[:MOST_CERTIFICATES] if one not in trusted and _is_authority(one, at)]
    grown = True
    while grown:
        grown = False
        for one in list(left):
            if any(_issued(one, by) for by in trusted):
                trusted.append(one)
                left.remove(one)
                grown = True
    return trusted[len(roots) :]


def _is_authority(one: x509.Certificate, at: datetime) -> bool:
    try:
        constraints = one.extensions.get_extension_for_class(x509.BasicConstraints).value
        usage = one.extensions.get_extension_for_class(x509.KeyUsage).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return constraints.ca and usage.key_cert_sign and one.not_valid_before_utc <= at <= one.not_valid_after_utc


def _issued(one: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        one.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def in_order(response: bytes) -> bytes:
    """Return an answer with the certificates in DER's order. Raises ValueError where it is no answer with a token."""
    _, at, end = _element(response, 0)
    _, _, status_end = _element(response, at)
    if status_end >= end:
        raise ValueError("an answer without a token")
    _, at, _ = _element(response, status_end)  # ContentInfo: its type, then [0] with SignedData
    _, _, at = _element(response, at)
    _, at, _ = _element(response, at)
    _, at, end = _element(response, at)
    while at < end:
        tag, inner, after = _element(response, at)
        if tag == 0xA0:
            pieces = []
            while inner < after:
                _, _, piece_end = _element(response, inner)
                pieces.append(response[inner:piece_end])
                inner = piece_end
            ordered = b"".join(sorted(pieces))
            return response[: after - len(ordered)] + ordered + response[after:]
        at = after
    raise ValueError("a token without certificates")


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Return an element's tag, where its content begins, and where it ends. Raises ValueError."""
    if at + 2 > len(data):
        raise ValueError("cut off")
    tag, length, start = data[at], data[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[start : start + count], "big")
        start += count
        if not 1 <= count <= 4:
            raise ValueError("a length that is none")
    if start + length > len(data):
        raise ValueError("cut off")
    return tag, start, start + length
