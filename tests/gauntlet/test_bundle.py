"""A bundle of a real agent: checked with nothing of ours, by hand too, and every change is found and named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tachograph.canonical import canonical, digest
from tachograph.formats.bundle.published import VERIFY_TEXT
from tachograph.formats.bundle.reading import read_bundle
from tachograph.formats.bundle.refused import BundleRefused
from tachograph.formats.bundle.writing import write_bundle
from tachograph.library.bundles import verify_bundle
from tachograph.signing import dsse, merkle, note
from tachograph.signing.keys import SigningKey
from tachograph.testing.scripted import ScriptedServer
from tests.gauntlet.harness import World, record, tacho
from tests.gauntlet.test_document import openai_answer
from tests.repository.tree import ROOT


@dataclass(frozen=True)
class Given:
    """A bundle as it was given away."""

    world: World
    path: Path
    members: dict[str, bytes]

    @property
    def name(self) -> str:
        return next(name[9:-5] for name in self.members if name.startswith("captures/"))


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    """One decision, exported."""
    folder = tmp_path_factory.mktemp("bundle")
    with ScriptedServer(openai_answer) as server:
        recorded = record(folder, "documents.py", library="openai", url=server.url)
    assert recorded.exit_code == 0, recorded
    done = tacho(recorded.world, "export", "last", "-o", "x.tacho", "--scope", "operator")
    assert done.exit_code == 0, done
    path = recorded.world.work / "x.tacho"
    bundle = read_bundle(path)
    return Given(recorded.world, path, {name: bundle.read(name) for name in bundle.names})


def test_it_is_checked_with_no_store_no_key_and_no_home(given: Given, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}

    command = [sys.executable, "-m", "tachograph", "verify", str(given.path), "--json"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done
    answer = json.loads(done.stdout)
    (capture,) = answer["captures"]
    states = {name: check["state"] for name, check in capture["checks"].items()}
    assert states == {
        "identity": "not_checked", "format": "ok", "signature": "ok", "key": "ok", "time": "not_checked",
        "inclusion": "ok", "consistency": "not_checked", "anchor": "not_checked", "content": "ok",
        "sequence": "not_checked", "coverage": "ok",
    }  # fmt: skip
    assert "intact" in capture["checks"]["content"]["items"].values()
    assert list(tmp_path.iterdir()) == []


def test_the_export_is_in_the_log_before_the_bytes_are_out(given: Given) -> None:
    answer = json.loads(tacho(given.world, "verify", "--all", "--json").stdout)
    assert answer["failed"] == 0
    (capture,) = answer["captures"]
    assert capture["checks"]["consistency"]["reason"] == "size 5"  # two keys, decision, the run's record, the export


def test_a_person_checks_it_with_a_shell(given: Given, tmp_path: Path) -> None:
    lines = [line[4:] for line in VERIFY_TEXT.decode().splitlines() if line.startswith("    ")]
    commands = "\n".join(lines).partition("DIGEST=$(printf")[0]
    (tmp_path / "x.tacho").write_bytes(given.path.read_bytes())
    done = subprocess.run(
        ["sh", "-c", "FILE=x.tacho\n" + commands], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.startswith("members: as listed\n")
    assert done.stdout.count("Signature Verified Successfully") == 3
    assert done.stdout.count(": as signed") == 3
    assert "WRONG" not in done.stdout
    assert "NOT" not in done.stdout


def test_another_verifier_checks_it(given: Given, tmp_path: Path) -> None:
    signer = json.loads(given.members[f"captures/{given.name}.json"])["sealing"]["signer"]["keyDigest"][7:]
    command = [sys.executable, "-I", str(ROOT / "docs" / "verify_bundle.py"), str(given.path), signer]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert f"{given.name}: content: ok" in done.stdout
    assert "log: signature: ok" in done.stdout
    assert done.stdout.count(f"known key {signer}") == 4
    assert "NOT CHECKED" not in done.stdout


def key_twice(members: dict[str, bytes], name: str) -> None:
    member = f"captures/{name}.json"
    members[member] = members[member].replace(b"{", b'{"version":"replay/v2",', 1)


Change = Callable[[dict[str, bytes], str], None]


def edit_document(change: Callable[[dict[str, Any]], None]) -> Change:
    def edit(members: dict[str, bytes], name: str) -> None:
        document = json.loads(members[f"captures/{name}.json"])
        change(document)
        members[f"captures/{name}.json"] = canonical(document)

    return edit


def flip(prefix: str, at: int = -10) -> Change:
    def edit(members: dict[str, bytes], name: str) -> None:
        member = next(one for one in sorted(members) if one.startswith(prefix.replace("ID", name)))
        data = bytearray(members[member])
        data[at] ^= 1
        members[member] = bytes(data)

    return edit


def drop_blob(members: dict[str, bytes], name: str) -> None:
    del members[next(one for one in sorted(members) if one.startswith("blobs/"))]


def put(place: str, value: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        names = place.split("/")
        holder: Any = document
        for one in names[:-1]:
            holder = holder[int(one)] if isinstance(holder, list) else holder[one]
        holder[names[-1]] = value

    return edit_document(change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("agentConfiguration/systemPromptText", "Be cruel."), "/agentConfiguration/systemPromptText"),
        (put("executionTrace/toolCalls/0/output", "false"), "/executionTrace/toolCalls/0/output"),
        (put("added", 1), "/added"),
        (put("capturedAt", "2026-01-01T00:00:00.000Z"), "/capturedAt"),
        (put("signature/publicKeyRef", "did:key:z6Mkother"), "another key"),
        (put("commitments", {}), "commitments"),
        (put("salts", {}), "no salt"),
        (key_twice, "a key twice in one object"),
        (drop_blob, "missing"),
        (flip("envelopes/ID", at=400), "envelopes/"),
        (flip("signed/ID.pae"), ".pae is not what was signed"),
        (flip("signed/ID.sig"), ".sig is not the signature"),
        (flip("log/checkpoint"), "checkpoint"),
        (flip("log/proofs/ID", at=60), "proof"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_whoever_lists_a_change_anew_is_found_by_what_was_signed(given: Given, change: Change, said: str) -> None:
    members = dict(given.members)
    change(members, given.name)
    made = {name: data for name, data in members.items() if name not in
            ("MANIFEST.json", "EXPORT.dsse.json", "SHA256SUMS", "VERIFY.txt")}  # fmt: skip
    answer = verify_bundle(write_bundle(made, export=lambda digest: members["EXPORT.dsse.json"]))
    assert answer.failed
    assert any("EXPORT" in fault for fault in answer.faults), "it signs another MANIFEST"
    assert said in answer.model_dump_json(), answer


def test_a_bundle_signed_anew_by_somebody_else_is_not_from_the_one_you_know(given: Given) -> None:
    other = SigningKey.from_bytes(b"o" * 32)
    members = {name: data for name, data in given.members.items() if name not in
               ("MANIFEST.json", "EXPORT.dsse.json", "SHA256SUMS", "VERIFY.txt")}  # fmt: skip
    for member in [one for one in members if one.startswith("envelopes/")]:
        payload = json.loads(dsse.read_envelope(members[member]).payload)
        payload["sealing"]["signer"].update(publicKeyRef=other.public.reference(), keyDigest=other.public.key_digest())
        kind = dsse.read_envelope(members[member]).payload_type
        signature = other.sign(dsse.pae(kind, canonical(payload)))
        name = member[10:-10]
        members[member] = dsse.envelope(kind, canonical(payload), [("", signature)])
        members[f"signed/{name}.pae"] = dsse.pae(kind, canonical(payload))
        members[f"signed/{name}.sig"] = signature
    real = json.loads(given.members[f"captures/{given.name}.json"])["sealing"]["signer"]["publicKeyRef"]
    answer = verify_bundle(
        write_bundle(members, export=lambda digest: given.members["EXPORT.dsse.json"]), trust=[real.partition("#")[0]]
    )
    (capture,) = answer.captures
    assert capture.checks.identity.state == "not_checked"
    assert capture.checks.inclusion.state == "failed"
    assert answer.failed


def strangers_bundle(given: Given, other: SigningKey, *, begins: str = "theirs") -> bytes:
    """True captures in a log of a stranger's, of the same name, under an EXPORT that says content was withheld.

    It begins with their true registration, with the stranger's registration of their key, or with that of his own.
    """
    members = {name: data for name, data in given.members.items() if name not in
               ("MANIFEST.json", "EXPORT.dsse.json", "SHA256SUMS", "VERIFY.txt")}  # fmt: skip
    sound = json.loads(dsse.read_envelope(members[f"envelopes/{given.name}.dsse.json"]).payload)["sealing"]
    first = next(
        name for name in members if name.startswith("envelopes/stm_")
        and json.loads(dsse.read_envelope(members[name]).payload)["sealing"]["sequence"] == 0
    )  # fmt: skip
    members = {name: data for name, data in members.items() if "stm_" not in name or first[10:-10] in name}
    signer = {"algorithm": "ed25519", "publicKeyRef": other.public.reference(), "keyDigest": other.public.key_digest()}
    chain = {0: first[10:-10], sound["sequence"]: given.name}

    def state(kind: str, body: dict[str, Any], number: int) -> str:
        name = f"stm_01HZY3X5Q8R7W6V5T4S3R2Q1P{number}"
        sealing = {**sound, "sequence": number, "signer": signer}
        payload = canonical(
            {"version": "statement/v1", "statementId": name, "type": kind, "body": body, "sealing": sealing}
        )
        said = dsse.pae("application/vnd.tachograph.statement.v1+json", payload)
        members[f"signed/{name}.pae"], members[f"signed/{name}.sig"] = said, other.sign(said)
        members[f"envelopes/{name}.dsse.json"] = dsse.envelope(
            "application/vnd.tachograph.statement.v1+json", payload, [("", other.sign(said))]
        )
        chain[number] = name
        return name

    if begins != "theirs":
        members = {name: data for name, data in members.items() if "stm_" not in name}
        state("key", {"event": "new", "role": "signer", **(signer if begins == "own" else sound["signer"])}, 0)
    state("key", {"event": "new", "role": "log", **signer}, 1)
    if begins != "own":
        state("key", {"event": "new", "role": "signer", **signer}, sound["sequence"] + 1)
    leaves = []
    for _, name in sorted(chain.items()):
        read = dsse.read_envelope(members[f"envelopes/{name}.dsse.json"])
        kind = json.loads(read.payload).get("type", "capture")
        digests = {"payload": digest(read.payload), "signature": digest(read.signatures[0][1]), "type": kind}
        leaves.append(merkle.leaf_hash(canonical(digests)))
    assert sorted(chain) == list(range(len(chain)))
    stated = note.Checkpoint(origin=sound["origin"], size=len(leaves), root=merkle.root_of(leaves))
    members["log/checkpoint"] = note.sign(stated.body(), [note.Signer(sound["origin"], other)])

    def node(level: int, index: int) -> bytes:
        return merkle.root_of(leaves[index << level : index + 1 << level])

    for number, name in chain.items():
        path = merkle.inclusion_proof(number, len(leaves), node)
        members[f"log/proofs/{name}.tlog-proof"] = note.Proof(number, tuple(path), members["log/checkpoint"]).data()
    document = json.loads(members[f"captures/{given.name}.json"])
    del document["executionTrace"]["finalOutputText"], document["executionTrace"]["finalOutputHash"]
    del document["salts"]["/executionTrace/finalOutputText"]
    members[f"captures/{given.name}.json"] = canonical(document)

    def export(manifest: str) -> bytes:
        left_out = [{"decisionId": given.name, "pointer": "/executionTrace/finalOutputText", "reason": "credential"}]
        body = {"scope": "operator", "captures": [given.name], "manifest": manifest, "withheld": left_out}
        name = state("export", body, 9)
        made = members[f"envelopes/{name}.dsse.json"]
        for member in [one for one in members if name in one]:
            del members[member]
        return made

    return write_bundle(members, export=export)


def test_true_captures_in_a_stranger_s_log_under_a_stranger_s_export_are_found(given: Given) -> None:
    real = json.loads(given.members[f"captures/{given.name}.json"])["sealing"]["signer"]["publicKeyRef"]
    data = strangers_bundle(given, SigningKey.from_bytes(b"o" * 32), begins="own")
    answer = verify_bundle(data, trust=[real.partition("#")[0]])
    (capture,) = answer.captures
    states = {name: check["state"] for name, check in capture.checks.model_dump().items()}
    assert answer.faults == [], "all that the stranger signed is sound in itself"
    assert states["identity"] == "ok", "the capture is that of whom you know"
    assert states["key"] == "failed"
    assert states["inclusion"] == "failed"
    assert capture.checks.inclusion.reason == "its signer does not register the key that signed the checkpoint"
    assert states["format"] == "failed"
    assert capture.checks.format.reason == "EXPORT.dsse.json is not signed by its signer"
    assert states["content"] == "failed", "a stranger cannot say that something was withheld"
    assert capture.checks.content.items["/executionTrace/finalOutputText"] == "missing"


def test_a_stranger_cannot_go_on_with_a_log_of_others(given: Given) -> None:
    answer = verify_bundle(strangers_bundle(given, SigningKey.from_bytes(b"o" * 32)))
    assert answer.faults[:2] == [
        "leaf 1: the record that registers the log key is signed by another one",
        "leaf 3: the log has a signer key already; this would put another beside it",
    ]
    assert "its signer is not registered" in answer.faults[2]
    checks = answer.captures[0].checks
    assert [checks.consistency.state, checks.inclusion.state, checks.content.state] == ["failed"] * 3


def test_a_key_that_somebody_else_registers_is_not_registered(given: Given) -> None:
    answer = verify_bundle(strangers_bundle(given, SigningKey.from_bytes(b"o" * 32), begins="registers"))
    assert answer.captures[0].checks.key.state == "failed"


def test_a_changed_byte_of_the_file_is_refused_with_its_member(given: Given) -> None:
    data = bytearray(given.path.read_bytes())
    data[data.index(sha256(VERIFY_TEXT).hexdigest().encode())] ^= 1
    with pytest.raises(BundleRefused, match=r"MANIFEST|SHA256SUMS"):
        verify_bundle(bytes(data))


def test_a_credential_that_stands_in_a_body_too_is_in_no_member_and_what_held_it_is_said_to_be_withheld(
    tmp_path: Path,
) -> None:
    key = b"sk-live-1234567890abcdef"
    with ScriptedServer(openai_answer) as server:
        recorded = record(
            tmp_path, "documents.py", library="openai", url=server.url, asked=f"Refund 7. My key is {key.decode()}."
        )
    assert recorded.exit_code == 0, recorded
    assert tacho(recorded.world, "export", "last", "-o", "x.tacho", "--scope", "operator").exit_code == 0
    bundle = read_bundle(recorded.world.work / "x.tacho")
    for name in bundle.names:
        data = bundle.read(name)
        parts = [data, dsse.read_envelope(data).payload] if name.endswith(".dsse.json") else [data]
        assert all(key not in part for part in parts), name
    answer = verify_bundle(recorded.world.work / "x.tacho")
    assert (answer.failed, answer.faults) == (0, [])
    items = answer.captures[0].checks.content.items
    assert [place for place, state in items.items() if state == "withheld"] == ["/executionTrace/modelCalls/0/request"]


def test_what_is_not_built_is_refused_and_nothing_is_written(given: Given) -> None:
    for words in (("--scope", "regulator"), ("--scope", "operator", "--withhold", "/input")):
        done = tacho(given.world, "export", "last", "-o", "y.tacho", *words)
        assert done.exit_code == 3
        assert not (given.world.work / "y.tacho").exists()
    done = tacho(given.world, "export", "last", "-o", "x.tacho", "--scope", "operator")
    assert done.exit_code == 2
    assert b"is there already" in done.stderr
