"""Small runs made by hand, for the pure parts of intake and replay: frames as a log holds them."""

from __future__ import annotations

from typing import Any

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import EffectLog, read_effect_log

RUN_ID = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"


class Run:
    """Frames in order; each call adds one, a microsecond after the one before."""

    def __init__(self, **facts: Any) -> None:
        self.frames: list[fr.Frame] = [
            self._frame(fr.ABOUT, values.encode({"format": 1, "runId": RUN_ID, "decisionId": None, "number": 0,
                                                 "beganNs": 1_796_000_000_123_000_000, "damage": [], "tails": []})),
        ]  # fmt: skip
        said: dict[str, Any] = {"argv": ["python", "agent.py"], "cwd": "/somewhere", "umask": 18, "hashSeed": "7"}
        said |= {"environment": {"A": "b"}, "credentials": {}}
        said |= {"streams": {"stdin": "null", "stdout": "pipe", "stderr": "pipe"}, **facts}
        self.add(fr.RUN, values.encode(said))
        self.add(fr.NOTE, values.encode({"what": "started", "detail": "42"}))
        self.add(fr.PATH, b"0", path=1)
        self.add(fr.PROCESS, values.encode({"pid": 42, "path": "0"}))

    def _frame(self, kind: int, payload: bytes, **places: int) -> fr.Frame:
        at = len(getattr(self, "frames", ())) * 1000
        return fr.Frame(
            kind, places.get("flags", 0), places.get("decision", 0), places.get("effect", 0), places.get("path", 0),
            places.get("parent", 0), at, b"", payload,
        )  # fmt: skip

    def add(self, kind: int, payload: bytes = b"", **places: int) -> Run:
        """Add a frame."""
        self.frames.append(self._frame(kind, payload, **places))
        return self

    def call(
        self, effect: int, body: bytes, *, url: str = "http://h/v1", decision: int = 0, answer: bytes = b"ok"
    ) -> Run:
        """Add an HTTP effect that ended well."""
        meta = fr.fields(
            b"httpx", b"POST", url.encode(), fr.pack_headers([(b"content-type", b"application/json")]), b""
        )
        places = {"effect": effect, "path": 1, "decision": decision}
        self.add(fr.CALL, meta + body, **places)
        self.add(fr.HEAD, fr.fields(b"200", b"HTTP/1.1", b"OK", fr.pack_headers([]), b""), **places)
        self.add(fr.CHUNK, answer, **places)
        return self.add(fr.END, fr.fields(b"eof", b""), **places)

    def ended(self, code: int = 0) -> Run:
        """Add the end of the run as `tacho run` sees it."""
        return self.add(fr.ENDED, values.encode({"exitCode": code, "signal": None}), flags=1)

    @property
    def data(self) -> bytes:
        """The log's bytes."""
        return fr.write_log(self.frames)[0]

    @property
    def log(self) -> EffectLog:
        """The log, read."""
        return read_effect_log([self.data])
