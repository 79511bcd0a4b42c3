"""One model per `--json` document: what the command line prints and the library returns.

A key whose part is not built yet is an `Unavailable`, never missing and never invented. Frozen samples of each document
lie under `tests/formats/`; `docs/json.md` is generated from these models.
"""

from tachograph.formats.answers.diff import DiffAnswer
from tachograph.formats.answers.doctor import DoctorAnswer
from tachograph.formats.answers.ls import DecisionRow
from tachograph.formats.answers.parts import Answer, DivergenceItem, Unavailable
from tachograph.formats.answers.replay import ReplayAnswer
from tachograph.formats.answers.show import ShowAnswer
from tachograph.formats.answers.verify import VerifyAnswer

__all__ = [
    "Answer",
    "DecisionRow",
    "DiffAnswer",
    "DivergenceItem",
    "DoctorAnswer",
    "ReplayAnswer",
    "ShowAnswer",
    "Unavailable",
    "VerifyAnswer",
]
