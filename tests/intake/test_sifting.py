"""A frame of a spool file says what its kind says, or it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.intake.sifting import sift


def around(said: Any) -> bytes:
    return fr.Frame(fr.AROUND, 0, 0, 0, 0, 0, 1, b"", values.encode(said)).written()


@pytest.mark.parametrize("said", [7, None, ["codeVersion"], "text"])
def test_what_is_said_of_a_run_s_surroundings_is_a_mapping(said: Any) -> None:
    with pytest.raises(FormatError):
        sift(around(said))
    assert sift(around({"codeVersion": "git:1"})).kind == fr.AROUND
