"""A time stamping authority of the tests' own: certificates made here, answers by the `openssl ts` command."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CONFIGURATION = """
[tsa]
default_tsa = it
[it]
serial = {folder}/serial
signer_digest = sha256
default_policy = {policy}
digests = sha256, sha512
accuracy = secs:1
ess_cert_id_alg = sha256
{more}
"""
POLICY = "1.2.3.4.1"


@dataclass(frozen=True)
class Issued:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        """The key as PEM."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def issue(
    name: str, by: Issued | None = None, *, ca: bool = True, certifies: bool | None = None,
    days: tuple[int, int] = (-1, 365), stamping: bool = True,
) -> Issued:  # fmt: skip
    """Make a certificate: an authority's, or one that stamps times. `days`: valid from and until, from today."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certifies = ca if certifies is None else certifies
    usage = x509.KeyUsage(not ca, False, False, False, False, certifies, certifies, False, False)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    if not ca and stamping:
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
    return Issued(builder.sign(key if by is None else by.key, hashes.SHA256()), key)


class Authority:
    """Answers requests; needs the openssl command."""

    def __init__(self, folder: Path, *, name: str = "Test root", chain: Sequence[Issued] = ()) -> None:
        """Make a root and the certificate that stamps; `chain` authorities between them are put into each answer."""
        if shutil.which("openssl") is None:
            pytest.skip("there is no openssl command here, and it is what answers for the tests' own time authority")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.root = chain[0] if chain else issue(name)
        self.signer = issue(f"{name} stamps", chain[-1] if chain else self.root, ca=False)
        more = ""
        if chain:
            (folder / "chain.pem").write_bytes(b"".join(one.pem() for one in chain))
            more = f"certs = {folder}/chain.pem"
        (folder / "signer.pem").write_bytes(self.signer.pem())
        (folder / "signer.key").write_bytes(self.signer.key_pem())
        (folder / "serial").write_text("01\n")
        (folder / "tsa.cnf").write_text(CONFIGURATION.format(folder=folder, policy=POLICY, more=more))

    def answer(self, request: bytes) -> bytes:
        """Answer a request."""
        (self.folder / "request").write_bytes(request)
        command = ["openssl", "ts", "-reply", "-config", "tsa.cnf", "-section", "it", "-queryfile", "request",
                   "-inkey", "signer.key", "-signer", "signer.pem", "-out", "answer"]  # fmt: skip
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)
        return (self.folder / "answer").read_bytes()

    def openssl_verifies(self, message: bytes, answer: bytes) -> bool:
        """Whether the openssl command finds that the answer holds under the root."""
        (self.folder / "message").write_bytes(message)
        (self.folder / "answer").write_bytes(answer)
        (self.folder / "root.pem").write_bytes(self.root.pem())
        command = ["openssl", "ts", "-verify", "-data", "message", "-in", "answer", "-CAfile", "root.pem"]
        return subprocess.run(command, cwd=self.folder, capture_output=True).returncode == 0
