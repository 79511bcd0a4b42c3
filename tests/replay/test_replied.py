"""What a program answered to an inbound request, held against what was recorded."""

from __future__ import annotations

from typing import Any

import pytest

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import EffectLog, effects_of
from tachograph.replay.replied import compare_replies

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Tue, 01 Dec 2026 03:43:20 GMT\r\n"


def log_of(reply: list[bytes], *, whole: bool = True, asked: bytes = b"POST / HTTP/1.1\r\n\r\n") -> EffectLog:
    """A log that holds a request and the pieces of its answer."""
    frames = [(fr.INBOUND, 0, asked), *((fr.REPLY, 0, piece) for piece in reply)]
    frames += [(fr.REPLY, 1, b"")] if whole else []
    return effects_of([fr.Frame(k, flags, 1, 0, 0, 0, at, b"", data) for at, (k, flags, data) in enumerate(frames, 1)])


def first(recorded: EffectLog, replayed: bytes) -> Any:
    report = [fr.Frame(fr.REPLY, 0, 0, 1, 0, 0, 1, b"", replayed[at : at + 5]) for at in range(0, len(replayed), 5)]
    return compare_replies(recorded, [fr.Frame(fr.CLOSE, 0, 0, 1, 0, 0, 0, b"", values.encode({})), *report], 1).first


def known(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


def test_the_same_answer_in_other_pieces_at_another_time_is_the_same() -> None:
    recorded = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b'{"a"', b":1}")
    replayed = recorded.replace(b"03:43:20", b"04:00:00").replace(chunked(b'{"a"', b":1}"), chunked(b'{"a":1}'))
    assert first(log_of([recorded[:30], recorded[30:]]), replayed) is None


def test_json_written_differently_is_the_same_and_said() -> None:
    report = [fr.Frame(fr.REPLY, 0, 0, 1, 0, 0, 1, b"", known(b'{"a": 1}'))]
    found = compare_replies(log_of([known(b'{"a":1}')]), report, 1)
    assert (found.first, found.notes) == (None, ("same JSON, written differently",))


@pytest.mark.parametrize(
    ("replayed", "path", "there"),
    [
        (known(b'{"a":2}'), "/decisions/1/reply/body/a", 2),
        (known(b'{"a":1}').replace(b"200 OK", b"500 No"), "/decisions/1/reply/status", 500),
        (known(b'{"a":1}').replace(b"Date", b"X-Kind"), "/decisions/1/reply/headers/x-kind", None),
        (b"", "/decisions/1/reply", None),
    ],
)
def test_another_answer_differs_at_its_place(replayed: bytes, path: str, there: Any) -> None:
    where, _, now = first(log_of([known(b'{"a":1}')]), replayed)
    assert where == path
    assert there is None or now == there


def test_an_answer_that_was_cut_off_is_compared_as_far_as_it_went() -> None:
    cut = (HEAD + b"Content-Length: 9\r\n\r\n0123456")[:-3].replace(b"application/json", b"text/plain")
    whole = cut + b"45678"
    assert first(log_of([cut], whole=False), whole) is None
    assert first(log_of([cut], whole=False), whole.replace(b"0123", b"0124")) is not None
    assert first(log_of([], whole=False), whole) is None


def test_an_answer_to_head_has_no_body_and_credentials_do_not_decide() -> None:
    log = log_of([HEAD + b"Content-Length: 5\r\nSet-Cookie: a=00\r\n\r\n"], asked=b"HEAD / HTTP/1.1\r\n\r\n")
    assert first(log, HEAD + b"Content-Length: 5\r\nSet-Cookie: a=17\r\n\r\n") is None
