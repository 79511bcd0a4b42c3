"""Effects keep exact bytes and invent no end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tachograph.model.effect import CHUNK, END, HEAD, HTTP, SUBPROCESS, TOOL, Arrival, Effect

CHUNKS = st.lists(st.tuples(st.integers(1, 2), st.binary(max_size=20)), max_size=8)


def effect_of(kind: str) -> Effect:
    return Effect(kind, index=1, path="0/a1", decision=2, parent=0, at_ns=5)


def test_an_effect_that_has_only_started_is_open_at_end_and_holds_nothing() -> None:
    effect = effect_of(HTTP)
    assert effect.ended == "open_at_end"
    assert (effect.chunks, effect.answer, effect.exit_status, effect.error) == ([], b"", None, b"")


@given(CHUNKS)
def test_chunks_keep_their_borders_and_their_streams(chunks: list[tuple[int, bytes]]) -> None:
    effect = effect_of(SUBPROCESS)
    effect.arrivals = [Arrival(HEAD, 0)]
    effect.arrivals += [Arrival(CHUNK, at, data, stream) for at, (stream, data) in enumerate(chunks, 1)]
    effect.arrivals.append(Arrival(END, 99))
    assert effect.chunks == [data for _, data in chunks]
    assert effect.answer == b"".join(effect.chunks)
    for stream in (1, 2):
        assert effect.output(stream) == b"".join(data for written, data in chunks if written == stream)


def test_a_summary_names_the_effect() -> None:
    call, started, tool = effect_of(HTTP), effect_of(SUBPROCESS), effect_of(TOOL)
    call.method, call.url = "GET", "http://a/"
    started.command = {"args": ["uname", "-p"]}
    tool.name = "refund"
    assert [one.summary for one in (call, started, tool)] == ["GET http://a/", "uname -p", "tool refund"]


def test_two_effects_share_no_list() -> None:
    one, other = effect_of(HTTP), effect_of(HTTP)
    one.arrivals.append(Arrival(HEAD, 1))
    one.headers.append((b"a", b"b"))
    assert (other.arrivals, other.headers) == ([], [])
