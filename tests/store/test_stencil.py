"""A pressed stream is the same stream again, and the text of an answer stands in one piece."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tachograph.errors import DamagedStore
from tachograph.store.stencil import press, restore
from tests.store.kept import texts

WORDS = "We can refund the whole amount because the parcel came late and nobody signed".split()  # noqa: SIM905


def chat(words: list[str]) -> bytes:
    return b"".join(
        b"data: "
        + json.dumps(
            {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
             "choices": [{"index": 0, "delta": {"content": " " + word}, "logprobs": None}]}, separators=(",", ":"),
        ).encode() + b"\n\n"
        for word in words
    ) + b"data: [DONE]\n\n"  # fmt: skip


def responses(words: list[str]) -> bytes:
    return b"".join(
        b"event: response.output_text.delta\ndata: "
        + json.dumps({"type": "response.output_text.delta", "sequence_number": 4 + n, "item_id": "msg_0123456789",
                      "output_index": 0, "delta": " " + word, "obfuscation": f"{n * 7919:x}"}).encode() + b"\n\n"
        for n, word in enumerate(words)
    )  # fmt: skip


# Its start and its end are alike, so that one of them alone both begins and ends as an event does.
OVERLAPPING = b'"' + b"y" * 60 + b'"%s"' + b"y" * 60 + b'"'
events = st.lists(
    st.sampled_from([*chat(WORDS).split(b"\n\n"), *responses(WORDS).split(b"\n\n"), b"", b'"', b"x"]), max_size=40
)
streams = st.builds(lambda parts, by: by.join(parts), events, st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n"]))


@given(st.one_of(texts, streams))
@example(b"\n\n" * 8)
@example(b"\n\n".join([OVERLAPPING % b"1", OVERLAPPING % b"2", OVERLAPPING % b"3", OVERLAPPING[:62]] * 3))
@example(chat(WORDS[:6]) + chat(WORDS[:6]).replace(b"null", b"stop"))
@example(responses(WORDS[:6]) + b"\n\n" + responses(WORDS).split(b"\n\n")[8].replace(b"item_id", b"another_id"))
@example(b'a"' * 50 + (b"\n\n" + b'a"' * 50) * 8)
def test_any_bytes_come_back_exactly(text: bytes) -> None:
    program, kept = press(text)
    assert restore(program, kept) == text


@pytest.mark.parametrize("stream", [chat(WORDS), responses(WORDS)], ids=["chat", "responses"])
def test_the_answers_text_stands_in_one_piece_and_envelopes_once(stream: bytes) -> None:
    program, kept = press(stream)
    assert (" " + " ".join(WORDS)).encode() in kept or "".join(WORDS).encode() in kept
    assert kept.count(b"data: ") <= 2
    assert len(kept) + len(program) < len(stream) / 4


def test_numbers_that_count_up_are_not_kept() -> None:
    _, kept = press(responses(WORDS * 3))
    assert b"4567891011" not in kept
    assert b":4:5:6" not in kept


def test_neighbours_that_begin_alike_stay_in_their_columns() -> None:
    program, kept = press(chat(["same", "sane", "salt", "sand", "other", "word", "here", "too"]))
    assert kept.count(b"data: ") <= 2
    assert restore(program, kept) == chat(["same", "sane", "salt", "sand", "other", "word", "here", "too"])


def test_what_gains_nothing_stays_as_it_is() -> None:
    assert press(b"no stream") == ([], b"no stream")
    lines = b"\n".join(b"%d" % (n * n) for n in range(50))
    assert press(lines) == ([], lines)


def test_a_program_that_does_not_fit_its_bytes_is_damage() -> None:
    program, kept = press(chat(WORDS))
    refused = 0
    for cut in range(1, len(program)):
        try:
            assert restore(program[:cut], kept) != chat(WORDS)
        except DamagedStore:
            refused += 1
    assert refused >= len(WORDS)
    with pytest.raises(DamagedStore, match="does not fit"):
        restore([9], b"")
