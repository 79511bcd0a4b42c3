"""docs/verify_bundle.py, which shares no line with us, passes a sound bundle and finds by name what was changed."""

from __future__ import annotations

import ast
import json
import math
import os
import runpy
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given
from hypothesis import strategies as st

from tachograph.formats.bundle.reading import read_bundle
from tachograph.formats.capture_check import examine
from tests.formats.bundle.by_hand import IDS, KEY_ID, REQUEST, Made, canonical, hashed, made, pem, raw, set_head
from tests.formats.bundle.hand_made import build, listed, pieces_of
from tests.repository.tree import ROOT

PROGRAM = ROOT / "docs" / "verify_bundle.py"
BLOB = f"blobs/{hashed(REQUEST)[7:]}"
KID = hashed(raw(made().key))[7:]


def run(data: bytes, folder: Path, *trusted: str) -> tuple[int, str]:
    (folder / "one.tacho").write_bytes(data)
    command = [sys.executable, "-I", str(PROGRAM), "one.tacho", *trusted]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert os.listdir(folder) == ["one.tacho"], "nothing is written"
    return done.returncode, done.stdout + done.stderr


def failed(data: bytes, folder: Path) -> list[str]:
    code, said = run(data, folder)
    assert code == 1, said
    return [line for line in said.splitlines() if "FAILED" in line]


def edited(bundle: Made, change: Callable[[Any], None], number: int = 0) -> bytes:
    """A bundle whose capture's document was changed and whose lists and EXPORT were made anew."""
    name = f"captures/{IDS[number]}.json"
    document = json.loads(bundle.members[name])
    change(document)
    bundle.members[name] = json.dumps(document).encode()
    return bundle.data()


def test_a_sound_bundle_passes_and_the_signer_is_not_known_unless_one_says_so(tmp_path: Path) -> None:
    code, said = run(made().data(), tmp_path)
    assert code == 0, said
    assert said.splitlines() == [
        f"bundle: format: ok (exported by unknown key {KID})",
        "log: signature: ok",
        *(f"{id}: record: ok (leaf {n} of 3, identity NOT CHECKED, unknown key {KID})" for n, id in enumerate(IDS, 1)),
        f"{KEY_ID}: record: ok (leaf 0 of 3, identity NOT CHECKED, unknown key {KID})",
        *(f"{id}: content: ok (9 intact, 0 not there)" for id in IDS),
    ]
    code, said = run(made().data(), tmp_path, KID)
    assert said.count(f"known key {KID}") == 4
    assert "unknown" not in said
    assert "NOT CHECKED" not in said


def test_the_hand_made_captures_are_those_of_our_own_format_too() -> None:
    bundle = read_bundle(made().data())
    for id in IDS:
        document = bundle.document(f"captures/{id}.json")
        payload = json.loads(b64decode(bundle.document(f"envelopes/{id}.dsse.json")["payload"]))
        blobs = {digits: bundle.read(f"blobs/{digits}") for digits in bundle.blobs}
        found = examine(payload, document, salts=document["salts"], blobs=blobs)
        assert found.faults == []
        assert set(found.states.values()) == {"intact"}
        entries = document["memoryState"]["workingSetEntries"]
        assert document["memoryState"]["contextSetHash"] == "sha256:" + set_head(entries).hex()


def set_at(pointer: str, value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        *path, name = pointer.split("/")[1:]
        for part in path:
            document = document[int(part)] if isinstance(document, list) else document[part]
        document[name] = value

    return change


def salt_moved(document: Any) -> None:
    """Bytes slid from the salt into the digest's place: the committed line would be the same text."""
    pointer = "/agentConfiguration/systemPromptText"
    document["salts"][pointer] += " "


OUTPUT = "/executionTrace/toolCalls/0/output"
EDITS: dict[str, Callable[[Any], None]] = {
    "a text": set_at("/agentConfiguration/systemPromptText", "Be rude."),
    "a text's digest": set_at("/agentConfiguration/systemPromptHash", hashed(b"Be rude.")),
    "a truth value as text": set_at(OUTPUT, "false"),
    "a truth value": set_at(OUTPUT, True),
    "another blob's digest": set_at("/input/requestPayload", "sha256:" + "0" * 64),
    "a tree's head": set_at("/memoryState/contextSetHash", "sha256:" + "0" * 64),
    "a skeleton value": set_at("/executionTrace/stopReason", "error"),
    "a field more": set_at("/agentConfiguration/developerPromptText", "and rude"),
    "a salt dropped": lambda document: document["salts"].pop(OUTPUT),
    "a longer salt": lambda document: document["salts"].update({OUTPUT: document["salts"][OUTPUT] + "0"}),
    "a salt with a blank": salt_moved,
    "a commitment dropped": lambda document: document["commitments"].pop(OUTPUT),
    "another signer": set_at("/signature/publicKeyRef", "did:web:example.com#k"),
    "the number in the log": set_at("/sealing/sequence", 2),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edited_document_is_found_though_all_lists_were_made_anew(what: str, tmp_path: Path) -> None:
    (line,) = failed(edited(made(), EDITS[what]), tmp_path)
    assert line.startswith(f"{IDS[0]}: content: FAILED")


def test_a_key_twice_in_a_document_is_found(tmp_path: Path) -> None:
    bundle = made()
    name = f"captures/{IDS[1]}.json"
    bundle.members[name] = bundle.members[name].replace(b'{"', b'{"version": "replay/v2", "', 1)
    (line,) = failed(bundle.data(), tmp_path)
    assert line == f"{IDS[1]}: content: FAILED, a key stands twice"


def test_what_is_not_there_is_counted(tmp_path: Path) -> None:
    def withhold(document: Any) -> None:
        del document["agentConfiguration"]["systemPromptText"], document["agentConfiguration"]["systemPromptHash"]

    code, said = run(edited(made(), withhold), tmp_path)
    assert code == 0
    assert f"{IDS[0]}: content: ok (8 intact, 1 not there)" in said


def test_a_blob_that_is_gone_or_another_is_found(tmp_path: Path) -> None:
    bundle = made()
    bundle.members[BLOB] = b"other"
    whole = listed(bundle.members)
    assert len([line for line in failed(build(pieces_of(whole)), tmp_path) if "content: FAILED" in line]) == 2
    del bundle.members[BLOB]
    assert len([line for line in failed(bundle.data(), tmp_path) if "content: FAILED" in line]) == 2


def test_two_captures_swapped_are_found(tmp_path: Path) -> None:
    bundle = made()
    for name in ("captures/{}.json", "envelopes/{}.dsse.json", "signed/{}.pae", "signed/{}.sig"):
        one, other = (name.format(id) for id in IDS)
        bundle.members[one], bundle.members[other] = bundle.members[other], bundle.members[one]
    assert [line.split(",")[0] for line in failed(bundle.data(), tmp_path)] == [f"{id}: record: FAILED" for id in IDS]


def test_proofs_swapped_and_another_checkpoint_are_found(tmp_path: Path) -> None:
    bundle = made()
    one, other = (f"log/proofs/{id}.tlog-proof" for id in IDS)
    bundle.members[one], bundle.members[other] = bundle.members[other], bundle.members[one]
    assert len(failed(bundle.data(), tmp_path)) == 2
    bundle = made()
    bundle.members["log/checkpoint"] = bundle.members["log/checkpoint"].replace(b"\n3\n", b"\n4\n", 1)
    first, *_ = failed(bundle.data(), tmp_path)
    assert first == "log: signature: FAILED, none of these keys made this signature"


def signed_anew(bundle: Made, key: Ed25519PrivateKey, head: bytes) -> bytes:
    """The checkpoint with another signature line."""
    text, _, lines = bundle.members["log/checkpoint"].partition(b"\n\n")
    line = lines.rsplit(b" ", 1)[0] + b" " + b64encode(head + key.sign(text + b"\n")) + b"\n"
    return text + b"\n\n" + line


def test_a_checkpoint_that_another_key_than_the_log_s_signed_is_found(tmp_path: Path) -> None:
    bundle = made()
    bundle.members["log/checkpoint"] = signed_anew(bundle, bundle.key, bytes(4))
    first, *_ = failed(bundle.data(), tmp_path)
    assert first == "log: signature: FAILED, none of these keys made this signature"
    bundle.members["log/checkpoint"] = signed_anew(bundle, bundle.log_key, bytes(4))
    assert failed(bundle.data(), tmp_path)[0] == "log: signature: FAILED, it names another key"


def test_a_log_that_a_key_registered_which_you_do_not_know_is_not_taken_for_the_signer_s(tmp_path: Path) -> None:
    """Sound captures under a log of somebody else's, of the same name."""
    bundle = made()
    stranger = Made(key=Ed25519PrivateKey.from_private_bytes(b"o" * 32), log_key=bundle.log_key)
    stranger.register()
    bundle.members |= stranger.members
    bundle.members[f"keys/{hashed(raw(stranger.key))[7:]}.pem"] = pem(stranger.key)
    (tmp_path / "in").mkdir()
    code, said = run(bundle.data(), tmp_path / "in", KID)
    assert code == 1
    assert "log: signature: FAILED, none of these keys made this signature" in said


def test_a_payload_that_names_another_key_is_found(tmp_path: Path) -> None:
    bundle = made()
    other = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
    payload = json.loads(b64decode(json.loads(bundle.members[f"envelopes/{IDS[0]}.dsse.json"])["payload"]))
    payload["sealing"]["signer"]["keyDigest"] = hashed(raw(other))
    bundle.add(IDS[0], canonical(payload), json.loads(bundle.members[f"captures/{IDS[0]}.json"]))
    first, *_ = failed(bundle.data(), tmp_path)
    assert first == f"{IDS[0]}: record: FAILED, it names another key than its signer's"


def test_lists_and_export_that_do_not_fit_are_found(tmp_path: Path) -> None:
    bundle = made()
    assert failed(build(pieces_of(listed(bundle.members))), tmp_path)[0].startswith("bundle: format: FAILED")
    whole = listed(bundle.members, replace={"EXPORT.dsse.json": bundle.export(hashed(b"another"))})
    (line,) = failed(build(pieces_of(whole)), tmp_path)
    assert line == "bundle: format: FAILED, EXPORT.dsse.json signs another MANIFEST.json"
    whole = listed(bundle.members)
    whole["EXPORT.dsse.json"] = bundle.export(hashed(whole["MANIFEST.json"]))
    whole["time/more.tsr"] = b"x"
    (line,) = failed(build(pieces_of(whole)), tmp_path)
    assert line == "bundle: format: FAILED, MANIFEST.json does not fit the members"


CANONICAL = runpy.run_path(str(PROGRAM))["canonical"]
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(VALUES)
@example(
    {
        "\u20ac": 1e21,
        "\U0001f600": 1e-7,
        "\ufb33": 5e-324,
        "a": [1.0, 1e20, 1e-6, 9.5e-5, -1.5e300, 123456789012345680000.0],
    }
)
def test_its_canonical_form_is_that_of_rfc_8785(value: Any) -> None:
    if not any_minus_zero(value):
        assert CANONICAL(value).encode() == rfc8785.dumps(value)


def any_minus_zero(value: Any) -> bool:
    """-0 stands in no capture as a value (rule 1), so that page need not write it."""
    if isinstance(value, dict):
        return any(map(any_minus_zero, value.values()))
    if isinstance(value, list):
        return any(map(any_minus_zero, value))
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0


def test_it_is_about_one_page_and_imports_nothing_of_ours() -> None:
    text = PROGRAM.read_text()
    assert len(text.splitlines()) <= 150
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported - sys.stdlib_module_names == {"cryptography"}
