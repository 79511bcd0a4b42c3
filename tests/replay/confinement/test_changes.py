"""What a program writes in a closed world is told file by file, and nothing of it reaches the machine."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tachograph.formats import frame as fr
from tests.replay.confinement.closed import NAMESPACES, NOBODY, USERS, Closed, folder_of, python

pytestmark = [NAMESPACES, pytest.mark.parametrize("user", USERS)]

LOWER = {
    "kept": "kept",
    "changed": "before",
    "same": "same",
    "gone": "gone",
    "deep/one": "1",
    "deep/two": "2",
    "link": None,
}


def _laid_out(folder: Path) -> None:
    for name, text in LOWER.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if text is None:
            path.symlink_to("kept")
        else:
            path.write_text(text)
            path.chmod(0o666)
    (folder / "deep").chmod(0o777)


def _told(closed: Closed, folder: Path) -> dict[str, tuple[str, str]]:
    return {
        str(Path(said["path"]).relative_to(folder)): (said["what"], said["kind"])
        for said in closed.of(fr.WRITTEN) if said["path"].startswith(str(folder))
    }  # fmt: skip


def _now(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): path.readlink() if path.is_symlink() else path.is_dir() or path.read_text()
        for path in folder.rglob("*")
    }


def _written(source: str, user: int | None, tmp_path: Path) -> tuple[Closed, dict[str, tuple[str, str]]]:
    with folder_of(user, tmp_path) as folder:
        _laid_out(folder)
        if user is not None:
            for path in (folder / "kept", *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        before = _now(folder)
        closed = python(source, user=user, cwd=str(folder))
        assert (closed.err, closed.ending.exit_code) == ("", 0)
        assert _now(folder) == before
        return closed, _told(closed, folder)


def test_made_changed_and_deleted_files_are_told(user: int | None, tmp_path: Path) -> None:
    closed, told = _written(
        """if True:
        import os, pathlib
        pathlib.Path("changed").write_text("after!")
        open("same", "a").close()
        os.utime("kept")
        os.unlink("gone")
        pathlib.Path("new").write_text("new")
        os.mkdir("folder"); pathlib.Path("folder/inside").write_text("x")
        os.unlink("link"); os.symlink("changed", "link")
        """, user, tmp_path,
    )  # fmt: skip
    assert told == {
        "changed": ("changed", "file"), "gone": ("deleted", "absent"), "new": ("made", "file"),
        "folder": ("made", "folder"), "folder/inside": ("made", "file"), "link": ("changed", "link"),
    }  # fmt: skip
    (new,) = [said for said in closed.of(fr.WRITTEN) if said["path"].endswith("/new")]
    assert (new["size"], new["sha256"]) == (3, hashlib.sha256(b"new").hexdigest())


def test_what_is_laid_out_is_there_before_the_program_and_not_on_the_machine(user: int | None, tmp_path: Path) -> None:
    with folder_of(user, tmp_path) as folder:
        path = folder / "state"

        def lay_out() -> list[str]:
            path.write_text("as before the run")
            return ["/other: not kept"]

        closed = python("print(open('state').read())", user=user, cwd=str(folder), lay_out=lay_out)
        assert not path.exists()
    assert closed.out == "as before the run\n"
    assert closed.of(fr.CONFINED)[0]["open"] == ["not as before the run: /other: not kept"]
    (said,) = closed.of(fr.WRITTEN)
    assert (said["what"], said["data"]) == ("made", b"as before the run")


def test_a_folder_that_was_deleted_or_replaced_is_told_file_by_file(user: int | None, tmp_path: Path) -> None:
    deep = {"deep": ("deleted", "absent"), "deep/one": ("deleted", "absent"), "deep/two": ("deleted", "absent")}
    assert _written("import shutil; shutil.rmtree('deep')", user, tmp_path)[1] == deep


def test_a_folder_that_was_made_anew_hides_what_it_held(user: int | None, tmp_path: Path) -> None:
    source = "import os, shutil; shutil.rmtree('deep'); os.mkdir('deep'); open('deep/two', 'w').write('3')"
    assert _written(source, user, tmp_path)[1] == {"deep/one": ("deleted", "absent"), "deep/two": ("changed", "file")}


def test_the_doors_of_the_probes_are_not_in_the_world(
    user: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with folder_of(user, tmp_path) as folder:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        closed = python("import os; print(os.listdir('.'))", user=user, cwd=str(folder))
        assert list(folder.iterdir()) == []
    assert closed.of(fr.CONFINED)[0]["held"]["file"] is True
    assert (closed.out, closed.of(fr.WRITTEN)) == ("[]\n", [])


def test_the_run_s_folder_may_be_another_user_s(user: int | None, tmp_path: Path) -> None:
    """As it may be written to outside; elsewhere an overlay cannot copy what belongs to somebody unknown here."""
    with folder_of(user, tmp_path) as folder:
        if user is not None:
            os.chown(folder, 0, 0)
        (folder / "kept").write_text("kept")
        (folder / "gone").write_text("gone")
        source = "import os; open('made', 'w').write('x'); os.unlink('gone'); print(open('kept').read())"
        closed = python(source, user=user, cwd=str(folder), needed=(str(folder),))
        assert (closed.out, closed.err) == ("kept\n", "")
        assert _told(closed, folder) == {"made": ("made", "file"), "gone": ("deleted", "absent")}
        assert sorted(_now(folder)) == ["gone", "kept"]


def test_what_came_and_went_again_is_not_told(user: int | None, tmp_path: Path) -> None:
    source = "import os; open('brief', 'w').close(); os.unlink('brief'); os.mkdir('short'); os.rmdir('short')"
    assert _written(source, user, tmp_path)[1] == {}


def test_files_of_others_are_as_closed_as_they_are(user: int | None) -> None:
    """An ordinary user cannot write to folders of root's in his world either."""
    closed = python(
        """if True:
        import os
        for path in ("/etc", "/usr", "/"):
            try: open(path + "/tachograph-made", "w").close(); print("written")
            except OSError as fault: print(fault.strerror)
        """, user=user,
    )  # fmt: skip
    if user is None and os.geteuid() == 0:
        assert closed.out == "written\n" * 3
        told = {said["path"]: said["what"] for said in closed.of(fr.WRITTEN)}
        assert told == dict.fromkeys(("/etc/tachograph-made", "/usr/tachograph-made", "/tachograph-made"), "made")
    else:
        assert closed.out == "Permission denied\n" * 3
    assert not any(Path(folder, "tachograph-made").exists() for folder in ("/etc", "/usr", "/"))
