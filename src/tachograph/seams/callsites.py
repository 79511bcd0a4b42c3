"""Where a wait was asked for: the nearest call site that says something about the program.

`asyncio.sleep`, `Event.wait` or `anyio.fail_after` end in a few functions of the standard library; what identifies a
wait is the line of the program, or of a library that it uses, from which that was called. Rules:

- the standard library and what only passes a wait on (anyio, async_timeout) are looked through;
- what waits below a boundary that another seam watches (httpcore, aiohttp's connections, `subprocess` for a program's
  end) has no place: it does not exist in a replay, and `whence` says None;
- where no line of a program is on the stack (`create_task(asyncio.sleep(1))`, `threading.Timer`), the function of the
  standard library that was handed over is the place.

A place is a number in this process, the same for the same text; `place_text` gives file, qualified name and source
line. Looking one up costs a dictionary look-up per frame.
"""

from __future__ import annotations

import os

from tachograph.formats.frame import fields
from tachograph.seams.draws import line_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED = os.sep + "site-packages" + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_THROUGH, _HANDED, _ENDS, _BELOW, _COUNTS = 1, 2, 3, 4, 5
# Functions that a program hands over as they are: to a task, an executor, a thread.
_HANDED_OVER = (
    "asyncio/tasks.py", "asyncio/timeouts.py", "concurrent/futures/thread.py", "threading.py", "queue.py", "sched.py",
)  # fmt: skip
_WAITS_ITSELF = ("subprocess.py", "multiprocessing/", "asyncore.py", "selectors.py")
# A callback's or a task's step begins here: what stands above only started the loop.
_BEGINS = (
    ("asyncio/events.py", "Handle._run"), ("asyncio/runners.py", ""), ("asyncio/base_events.py", "BaseEventLoop.run_"),
)  # fmt: skip
_PASSES_ON = ("anyio", "sniffio", "async_timeout", "uvloop", "aiohttp/client.py", "aiohttp/helpers.py")
_BELOW_A_SEAM = ("httpcore", "httpcore2", "h11", "h2", "aiohttp")

_standing: dict[int, tuple[int, Any]] = {}  # id of a code object -> (how it stands, the object: it keeps the id taken)
_numbers: dict[tuple[int, int], int] = {}
_by_text: dict[bytes, int] = {}
_texts: list[bytes] = []
_codes: list[CodeType] = []  # of the numbered places: they keep their ids taken
_own: list[bool] = []


def _stand(code: CodeType) -> int:
    name = code.co_filename
    if name.startswith(_OURS):
        stand = _THROUGH if name.endswith("context.py") else _BELOW
    elif name.startswith("<frozen"):
        stand = _THROUGH
    elif _INSTALLED in name:
        stand = _stand_installed(name.rpartition(_INSTALLED)[2].replace(os.sep, "/"))
    elif name.startswith(_LIBRARY):
        stand = _stand_library(name[len(_LIBRARY) :].replace(os.sep, "/"), code.co_qualname)
    else:
        stand = _COUNTS
    _standing[id(code)] = stand, code
    return stand


def _stand_installed(name: str) -> int:
    package = name.partition("/")[0].removesuffix(".py")
    if name.startswith(_PASSES_ON) and (package in _PASSES_ON or name in _PASSES_ON):
        return _HANDED if package == "anyio" else _THROUGH
    return _BELOW if package in _BELOW_A_SEAM else _COUNTS


def _stand_library(name: str, qualname: str) -> int:
    if any(name == file and qualname.startswith(begin) for file, begin in _BEGINS):
        return _ENDS
    if name.startswith(_WAITS_ITSELF):
        return _BELOW
    return _HANDED if name in _HANDED_OVER else _THROUGH


def whence(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """Return the place of the wait that was asked for in this frame, or None where it does not count."""
    handed = None
    standing = _standing
    while frame is not None:
        code = frame.f_code
        known = standing.get(id(code))
        stand = known[0] if known is not None else _stand(code)
        if stand == _COUNTS:
            return code, frame.f_lasti
        if stand == _BELOW:
            return None
        if stand == _ENDS:
            return handed
        if stand == _HANDED and handed is None:
            handed = code, frame.f_lasti
        frame = frame.f_back
    return handed


def place_of(found: tuple[CodeType, int]) -> int:
    """Return the number of a place, the same for all places of one text."""
    code, at = found
    number = _numbers.get((id(code), at))
    if number is None:
        file, qualname, line = line_of(code, at)
        text = fields(file.encode("utf-8", "replace"), qualname.encode(), line.encode("utf-8", "replace"))
        number = _by_text.get(text)
        if number is None:
            number = _by_text[text] = len(_texts)
            _texts.append(text)
            _own.append(not (code.co_filename.startswith(_LIBRARY) or _INSTALLED in code.co_filename))
        _codes.append(code)
        _numbers[id(code), at] = number
    return number


def place_text(number: int) -> bytes:
    """Return file (its last two parts), qualified name and source line of a place, packed as fields."""
    return _texts[number]


def is_own(number: int) -> bool:
    """Say whether the place is in the program's own files, and not in a library."""
    return _own[number]


def is_own_code(code: CodeType) -> bool:
    """Say whether this code is of the program's own files: no library's, not the standard library's, not ours."""
    known = _standing.get(id(code))
    stand = known[0] if known is not None else _stand(code)
    return stand == _COUNTS and _INSTALLED not in code.co_filename
