"""A scripted server behind TLS, under an authority that exists for one test."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tachograph.testing.scripted import ScriptedServer


def certificate(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1 and localhost that signs itself, with its key, as one file of PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tachograph test")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "authority.pem"
    form, bare = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM) + key.private_bytes(serialization.Encoding.PEM, form, bare)
    )
    return file


class TlsServer(ScriptedServer):
    """A `ScriptedServer` whose connections begin with a handshake. `authority` is what a client must trust."""

    authority: Path

    @classmethod
    def under(cls, authority: Path, script: object) -> TlsServer:
        """Make one whose certificate is that file's."""
        made = cls(script)  # type: ignore[arg-type]
        made.authority = authority
        return made

    @property
    def url(self) -> str:
        """Its address."""
        return f"https://127.0.0.1:{self.port}"

    def _serve(self, connection: socket.socket, number: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority)
        with contextlib.suppress(OSError):  # a client that does not trust us
            super()._serve(context.wrap_socket(connection, server_side=True), number)
