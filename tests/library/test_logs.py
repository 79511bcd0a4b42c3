"""A run's logs are all checked when they are opened, and what is much is not held."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tachograph.errors import DamagedStore
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.library.logs import Logs
from tests.store.kept import DOMAIN, Kept


def log(number: int) -> tuple[bytes, list[int]]:
    about = fr.Frame(fr.ABOUT, 0, 0, 0, 0, 0, 0, b"", values.encode({"number": number}))
    return fr.write_log([about, fr.Frame(fr.NOTE, 0, 0, 0, 0, 0, 1, b"", os.urandom(5000))])


def test_logs_are_the_same_whether_they_are_held_or_read_again(tmp_path: Path) -> None:
    kept, some = Kept(tmp_path), [log(number) for number in range(4)]
    with kept.content(write=True) as content:
        places = [("dec_1", content.append(DOMAIN, *one)) for one in some]
        content.commit()
        for keep in (0, 11_000, 1 << 20):
            logs = Logs(content, places, keep=keep)
            logs.more = [b"of a running program"]
            assert list(logs) == [*(data for data, _ in some), b"of a running program"]
            assert logs[-1] == b"of a running program"
            assert logs[1:3] == [some[1][0], some[2][0]]
            assert [about["number"] for about in logs.about] == [0, 1, 2, 3]
            assert len(logs._kept) == {0: 0, 11_000: 2}.get(keep, 4)


def test_a_log_that_is_damaged_is_named_when_the_run_is_opened(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    with kept.content(write=True) as content:
        place = content.append(DOMAIN, *log(1))
        content.commit()
    path = Path(kept.store.segments, f"{place.segment}.seg")
    data = path.read_bytes()
    path.write_bytes(data[:-20] + bytes((data[-20] ^ 1,)) + data[-19:])
    with kept.content() as content, pytest.raises(DamagedStore, match="dec_1 cannot be read"):
        Logs(content, [("dec_1", place)])
