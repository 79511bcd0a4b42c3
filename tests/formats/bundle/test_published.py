"""The commands of VERIFY.txt, run in a shell that has openssl, sha256sum, unzip and base64 and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tachograph.formats.bundle.published import PUBLISHED, VERIFY_TEXT
from tachograph.formats.bundle.reading import read_bundle
from tests.formats.bundle.by_hand import IDS, KEY_ID, REQUEST, TEXT, Made, hashed, made

TOOLS = ("openssl", "sha256sum", "unzip", "base64")
RECORDS = (*IDS, KEY_ID)
POINTER = "/agentConfiguration/systemPromptText"


def commands(text: str) -> str:
    """The lines that the text says are commands: those that begin with four blanks."""
    return "\n".join(line[4:] for line in text.splitlines() if line.startswith("    ")) + "\n"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the four tools, which is all that PATH names."""
    folder = tmp_path_factory.mktemp("tools")
    for name in TOOLS:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"this machine has no {name}")
        (folder / name).symlink_to(found)
    return folder


def run(bundle: Made, folder: Path, tools: Path, **values: str) -> str:
    (folder / "one.tacho").write_bytes(bundle.data())
    return shell(folder, tools, **values)


def shell(folder: Path, tools: Path, **values: str) -> str:
    done = subprocess.run(
        ["/bin/sh"], input=commands(VERIFY_TEXT.decode()), cwd=folder, capture_output=True, text=True,
        env={"PATH": str(tools), "FILE": "one.tacho", "HOME": str(folder), **values},
    )  # fmt: skip
    return done.stdout + done.stderr


def of_one_item(bundle: Made, pointer: str = POINTER, text: str = TEXT, number: int = 0) -> dict[str, str]:
    document = json.loads(bundle.members[f"captures/{IDS[number]}.json"])
    kind = document["commitments"][pointer].split(" ")[0]
    return {"ID": IDS[number], "POINTER": pointer, "KIND": kind, "SALT": document["salts"][pointer], "TEXT": text}


def test_a_sound_bundle_passes_every_step(tools: Path, tmp_path: Path) -> None:
    bundle = made()
    said = run(bundle, tmp_path, tools, **of_one_item(bundle)).splitlines()
    kid = hashed(bundle.key.public_key().public_bytes_raw())[7:]
    assert said == [
        "members: as listed",
        *(f"signed/{id}.pae names key {kid}" for id in RECORDS),
        *(f"{id}: Signature Verified Successfully" for id in RECORDS),
        *(f"{id}: as signed" for id in RECORDS),
        f"{POINTER}: as committed",
    ]


@pytest.mark.parametrize(
    ("pointer", "text"),
    [
        ("/executionTrace/toolCalls/0/input", '{"a":"\u2028","b":[1,null,0.5]}'),
        ("/executionTrace/toolCalls/0/output", "false"),
        ("/input/requestPayload", REQUEST.decode()),
    ],
)
def test_each_kind_of_content_can_be_checked(tools: Path, tmp_path: Path, pointer: str, text: str) -> None:
    bundle = made()
    said = run(bundle, tmp_path, tools, **of_one_item(bundle, pointer, text))
    assert said.splitlines()[-1] == f"{pointer}: as committed"


def test_other_content_or_another_salt_is_not_as_committed(tools: Path, tmp_path: Path) -> None:
    bundle = made()
    assert run(bundle, tmp_path, tools, **of_one_item(bundle, text="Be rude.")).endswith("NOT AS COMMITTED\n")
    shutil.rmtree(tmp_path / "bundle")
    longer = {**of_one_item(bundle), "SALT": of_one_item(bundle)["SALT"] + "0"}
    assert shell(tmp_path, tools, **longer).endswith("NOT AS COMMITTED\n")


def test_another_payload_under_a_signature_is_found(tools: Path, tmp_path: Path) -> None:
    bundle = made()
    bundle.members[f"signed/{IDS[0]}.pae"] = bundle.members[f"signed/{IDS[0]}.pae"].replace(b"billing", b"killing")
    said = run(bundle, tmp_path, tools, **of_one_item(bundle))
    assert f"{IDS[0]}: Signature Verification Failure" in said
    assert f"{IDS[0]}: NOT AS SIGNED" in said
    assert f"{IDS[1]}: as signed" in said


def test_two_captures_swapped_are_found(tools: Path, tmp_path: Path) -> None:
    bundle = made()
    for name in ("signed/{}.pae", "signed/{}.sig", "envelopes/{}.dsse.json"):
        one, other = (name.format(id) for id in IDS)
        bundle.members[one], bundle.members[other] = bundle.members[other], bundle.members[one]
    said = run(bundle, tmp_path, tools, **of_one_item(bundle))
    assert said.count("WRONG NAME") == 2


def test_another_key_under_the_name_of_the_signer_s_is_found(tools: Path, tmp_path: Path) -> None:
    bundle = made()
    one, other = sorted(name for name in bundle.members if name.startswith("keys/"))
    bundle.members[one], bundle.members[other] = bundle.members[other], bundle.members[one]
    said = run(bundle, tmp_path, tools, **of_one_item(bundle))
    assert said.count("WRONG KEY") == 3
    assert said.count("Signature Verification Failure") == 3


def test_a_member_changed_or_added_afterwards_is_found(tools: Path, tmp_path: Path) -> None:
    bundle = made()
    data = bundle.data()
    members = {name: read_bundle(data).read(name) for name in read_bundle(data).names}
    folder = tmp_path / "in"
    for name, content in {**members, "log/checkpoint": b"other", "blobs/more": b"x"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    subprocess.run(["zip", "-q", "-r", str(tmp_path / "one.tacho"), "."], cwd=folder, check=True)
    said = shell(tmp_path, tools, **of_one_item(bundle))
    assert "log/checkpoint: FAILED" in said
    assert "members: as listed" not in said
    assert "UNLISTED: blobs/more" in said


def test_the_text_is_one_and_the_same_and_ascii() -> None:
    bundle = read_bundle(made().data())
    assert bundle.read("VERIFY.txt") == VERIFY_TEXT
    assert VERIFY_TEXT.isascii()
    assert hashed(VERIFY_TEXT)[7:] in PUBLISHED
    assert max(map(len, VERIFY_TEXT.splitlines())) <= 120
