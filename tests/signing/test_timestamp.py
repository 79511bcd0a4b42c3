"""RFC 3161: the published answers, an authority of our own, and what is refused."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tachograph.errors import ExtraMissing, FormatError
from tachograph.signing import timestamp
from tachograph.signing.timestamp import NotStamped, Stamp
from tests.signing.authority import POLICY, Authority, Issued, issue

if not os.environ.get("CI"):
    pytest.importorskip("rfc3161_client", reason=f"time stamps need an extra: {timestamp.INSTALL}")

MESSAGE = b"tachograph/ab/default/0\n3\n"


def why(found: Stamp | NotStamped) -> str:
    """Why an answer proves nothing."""
    assert isinstance(found, NotStamped), found
    return f"{found.reason}: {found.message}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority."""
    return Authority(tmp_path_factory.mktemp("authority"))


def test_published_answers(shared: Path) -> None:
    folder = shared / "vectors/rfc3161"
    _, between, root = timestamp.certificates((folder / "ts_chain.pem").read_bytes())
    answer = (folder / "response.tsr").read_bytes()
    found = timestamp.verify(answer, b"hello", roots=[root], others=[between])
    assert isinstance(found, Stamp)
    assert (found.at, found.accuracy, found.before) == (1_728_402_032_000, 1_000, 1_728_402_033_000)
    assert "Intermediate" in found.authority
    for roots, others in (([root], []), ([between], []), ([between], [root])):
        assert "issuer" in why(timestamp.verify(answer, b"hello", roots=roots, others=others))
    assert "Mismatch" in why(timestamp.verify(answer, b"hallo", roots=[root], others=[between]))
    other = (folder / "other_response.tsr").read_bytes()
    assert why(timestamp.verify(other, b"hello", roots=[root], others=[between])).startswith("timestamp_refused")


def test_the_certificate_that_signed_is_named_whatever_stands_beside_it(shared: Path) -> None:
    folder = shared / "vectors/rfc3161"
    _, between, root = timestamp.certificates((folder / "ts_chain.pem").read_bytes())
    plain, injected = (
        timestamp.verify((folder / name).read_bytes(), b"hello", roots=[root], others=[between])
        for name in ("response.tsr", "response-injected-certs.tsr")
    )
    assert isinstance(plain, Stamp)
    assert isinstance(injected, Stamp)
    assert plain.authority == injected.authority


def test_what_is_asked_for_is_answered_and_verified(authority: Authority) -> None:
    asked = timestamp.ask(MESSAGE)
    answer = authority.answer(asked.data)
    found = timestamp.verify(
        answer, MESSAGE, roots=[authority.root.certificate], nonce=asked.nonce, policy=POLICY
    )  # fmt: skip
    assert isinstance(found, Stamp)
    assert abs(found.at / 1000 - time.time()) < 600
    assert (found.accuracy, found.policy) == (1000, POLICY)
    assert timestamp.chain(answer) == [authority.signer.pem()]
    assert authority.openssl_verifies(MESSAGE, answer)
    assert timestamp.ask(MESSAGE).nonce != asked.nonce


def test_each_thing_that_does_not_fit_is_a_reason(authority: Authority) -> None:
    asked = timestamp.ask(MESSAGE)
    answer = authority.answer(asked.data)
    root = authority.root.certificate

    def said(**change: object) -> str:
        given: dict[str, object] = {"response": answer, "message": MESSAGE, "roots": [root], **change}
        return why(timestamp.verify(**given))  # type: ignore[arg-type]

    assert said(roots=[]).startswith("no_root")
    assert "Nonce" in said(nonce=asked.nonce + 1)
    assert "Policy" in said(policy="1.2.3.4.2")
    assert "Mismatch" in said(message=MESSAGE + b"x")
    assert said(roots=[issue("Test root").certificate]).startswith("timestamp_refused")
    assert said(response=b"").startswith("timestamp_format")
    assert said(response=bytes(timestamp.MOST_BYTES + 1)).startswith(
        "timestamp_format: no time stamp that can be read: o"
    )
    assert "status 2" in said(response=bytes.fromhex("30053003020102"))


def test_no_certificate_of_the_evidence_makes_itself_a_root(authority: Authority, tmp_path: Path) -> None:
    """A bundle that was rebuilt with its own authority: its root may lie beside the token and is no root of ours."""
    forger = Authority(tmp_path / "forger", name="Test root")
    answer = forger.answer(timestamp.ask(MESSAGE).data)
    ours = [authority.root.certificate]
    for others in ([], [forger.root.certificate], [forger.root.certificate, forger.signer.certificate]):
        assert why(timestamp.verify(answer, MESSAGE, roots=ours, others=others)).startswith("timestamp_refused")
    assert isinstance(timestamp.verify(answer, MESSAGE, roots=[forger.root.certificate]), Stamp)


def between(tmp_path: Path, **unusual: object) -> tuple[Authority, Issued, Issued]:
    """An authority whose certificate was issued by one between it and the root, which is in no answer."""
    root = issue("Root")
    middle = issue("Between", root, **unusual)  # type: ignore[arg-type]
    made = Authority(tmp_path / "authority", chain=[root])
    signer = issue("Stamps", middle, ca=False)
    (made.folder / "signer.pem").write_bytes(signer.pem())
    (made.folder / "signer.key").write_bytes(signer.key_pem())
    (made.folder / "tsa.cnf").write_text((made.folder / "tsa.cnf").read_text().replace("certs =", "#"))
    return made, root, middle


def test_a_certificate_of_the_evidence_fills_a_chain(tmp_path: Path) -> None:
    made, root, middle = between(tmp_path)
    answer = made.answer(timestamp.ask(MESSAGE).data)
    assert "issuer" in why(timestamp.verify(answer, MESSAGE, roots=[root.certificate]))
    again = [middle.certificate, root.certificate, issue("Another").certificate]
    assert isinstance(timestamp.verify(answer, MESSAGE, roots=[root.certificate], others=again), Stamp)


@pytest.mark.parametrize(
    "unusual",
    [{"ca": False, "stamping": False, "certifies": True}, {"certifies": False}, {"days": (-9, -3)}, {"days": (3, 9)}],
)
def test_but_only_an_authority_s_and_in_its_time(tmp_path: Path, unusual: dict[str, object]) -> None:
    made, root, middle = between(tmp_path, **unusual)
    answer = made.answer(timestamp.ask(MESSAGE).data)
    found = timestamp.verify(answer, MESSAGE, roots=[root.certificate], others=[middle.certificate])
    assert "unable to get" in why(found), "it was not handed on as an intermediate"
    assert timestamp._below([root.certificate], [middle.certificate], datetime.now(UTC)) == []


@pytest.mark.parametrize("turned", [False, True])
def test_certificates_in_another_order_than_der_s_are_read(tmp_path: Path, turned: bool) -> None:
    """OpenSSL writes them as configured: one of the two orders is refused by the parser as it stands."""
    root = issue("Root")
    chain = [root, issue("Between A", root)]
    made = Authority(tmp_path / "authority", chain=chain)
    parts = [one.pem() for one in chain]
    (made.folder / "chain.pem").write_bytes(b"".join(parts[::-1] if turned else parts))
    asked = timestamp.ask(MESSAGE)
    answer = made.answer(asked.data)
    assert isinstance(timestamp.verify(answer, MESSAGE, roots=[root.certificate], nonce=asked.nonce), Stamp)
    assert len(timestamp.chain(answer)) == 3
    ordered = timestamp.in_order(answer)
    assert sorted(ordered) == sorted(answer)
    assert timestamp.in_order(ordered) == ordered
    assert made.openssl_verifies(MESSAGE, ordered)


def test_a_changed_byte_proves_no_other_time(authority: Authority) -> None:
    answer = authority.answer(timestamp.ask(MESSAGE).data)
    whole = timestamp.verify(answer, MESSAGE, roots=[authority.root.certificate])
    refused = 0
    for at in range(0, len(answer), 3):
        changed = answer[:at] + bytes([answer[at] ^ 1]) + answer[at + 1 :]
        found = timestamp.verify(changed, MESSAGE, roots=[authority.root.certificate])
        assert found == whole or isinstance(found, NotStamped)
        refused += isinstance(found, NotStamped)
    assert refused > len(answer) / 3 * 0.95
    for at in range(0, len(answer), 50):
        assert isinstance(timestamp.verify(answer[:at], MESSAGE, roots=[authority.root.certificate]), NotStamped)


def test_odd_files_are_format_errors() -> None:
    for pem in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(FormatError):
            timestamp.certificates(pem)
    with pytest.raises(FormatError):
        timestamp.chain(b"0\x80")
    for answer, what in ((b"0\x05\x30", "cut off"), (b"0", "cut off"), (b"0\x80\x00\x00", "a length that is none"),
                         (b"0\x85\x00\x00\x00\x00\x00", "a length that is none"),
                         (bytes.fromhex("30053003020102"), "without a token")):  # fmt: skip
        with pytest.raises(ValueError, match=what):
            timestamp.in_order(answer)
    with pytest.raises(FormatError, match="more than 64"):
        timestamp.certificates(issue("Root").pem() * 65)


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rfc3161_client", None)
    for call in (
        lambda: timestamp.ask(b"x"),
        lambda: timestamp.verify(b"", b"", roots=[]),
        lambda: timestamp.chain(b""),
    ):
        with pytest.raises(ExtraMissing, match=r"pip install 'tachograph\[evidence\]'"):
            call()
