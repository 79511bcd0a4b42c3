"""Compare: a run equals itself, and of two runs the first thing that differs is found, named and weighed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tachograph.comparison.compare import ComparedEffect, Comparison, Divergence, arranged, compare, compare_values
from tachograph.comparison.declared import Declared
from tachograph.comparison.leaves import ABSENT, Span
from tachograph.comparison.requests import Request
from tachograph.formats.values import encode

URL = "https://api.example.test/v1/chat/completions"


def _tool(number: int, name: str, path: str = "0", answer: Any = None, **inputs: Any) -> ComparedEffect:
    return ComparedEffect(number, path, Declared("tool", name, encode(inputs)), answer)


def _model(number: int, text: str, path: str = "0", answer: Any = None, url: str = URL) -> ComparedEffect:
    body = json.dumps({"messages": [{"content": text}]}).encode()
    return ComparedEffect(
        number, path, Request("http", "POST", url, ((b"content-type", b"application/json"),), body), answer
    )


RUN = [_model(0, "hello", answer={"status": 200, "body": b"hi"}), _tool(1, "tide", port="Dover"), _model(2, "bye")]
OUTCOME = {"exitCode": 0, "stdout": b"done\n", "stderr": b"", "filesWritten": {"a.txt": "sha256:1"}}


def _compare(one: list[ComparedEffect], other: list[ComparedEffect]) -> list[tuple[str, Any, Any, str, bool]]:
    found = compare(one, other).divergences
    return [(each.path, each.original, each.replay, each.severity, each.consequence) for each in found]


def test_a_run_equals_itself() -> None:
    assert compare(RUN, RUN, original_outcome=OUTCOME, replay_outcome=OUTCOME) == Comparison()
    assert compare(RUN, RUN).equivalent
    assert compare([], []).equivalent


def test_an_edited_prompt_is_the_finding_and_what_follows_is_its_consequence() -> None:
    other = [_model(0, "hello!"), _tool(1, "tide", port="Lyme"), _model(2, "bye")]
    found = compare(
        RUN, [other[0], other[1], RUN[2]], original_outcome=OUTCOME, replay_outcome={**OUTCOME, "exitCode": 1}
    )
    assert not found.equivalent
    assert [(one.path, one.effect, one.consequence) for one in found.divergences] == [
        ("/effects/0/body/messages/0/content", 0, False),
        ("/effects/1/inputs/port", 1, True),
        ("/outcome/exitCode", None, True),
    ]


def test_a_missing_and_an_added_effect_are_named() -> None:
    assert _compare(RUN, [RUN[0], RUN[2]]) == [("/effects/1", "tool tide", ABSENT, "critical", False)]
    assert _compare([RUN[0], RUN[2]], RUN) == [("/effects/+1", ABSENT, "tool tide", "critical", False)]
    assert _compare(RUN, []) == [
        ("/effects/0", f"http POST {URL}", ABSENT, "critical", False),
        ("/effects/1", "tool tide", ABSENT, "critical", True),
        ("/effects/2", f"http POST {URL}", ABSENT, "critical", True),
    ]


def test_an_answer_that_one_side_does_not_give_is_not_compared() -> None:
    for one, other in ((RUN[0], _model(0, "hello")), (_model(0, "hello"), RUN[0])):
        assert compare([one], [other]).divergences == ()


def test_r11_a_renamed_step_is_one_divergence_at_its_name(shared: Path) -> None:
    case = json.loads((shared / "cases" / "R11_renamed_step.json").read_bytes())
    one, other = [
        [_tool(step["seq"], step["name"], **step["args"]) for step in case[side]] for side in ("recorded", "replay")
    ]
    assert _compare(one, other) == [("/effects/2/name", "charge_card", "queue_charge", "critical", False)]


def test_a_step_of_another_kind_is_named_by_its_kind() -> None:
    for answer in (None, {"status": 500}):
        tool = _tool(1, "tide", answer=answer)
        assert _compare([tool], [RUN[0]]) == [("/effects/1/kind", "tool", "http", "critical", False)]
        assert _compare([RUN[0]], [tool]) == [("/effects/0/kind", "http", "tool", "critical", False)]


def test_effects_are_matched_within_their_task_path_and_the_order_between_paths_only_informs() -> None:
    one = [_model(0, "a", "0.1"), _model(1, "b", "0.2")]
    other = [_model(0, "b", "0.2"), _model(1, "a", "0.1")]
    assert _compare(one, other) == [("/effects/order", [0, 1], [1, 0], "informational", False)]
    assert compare(one, other).equivalent
    swapped = [_model(0, "b", "0.1"), _model(1, "a", "0.1")]
    assert not compare([_model(0, "a", "0.1"), _model(1, "b", "0.1")], swapped).equivalent


def test_an_inserted_effect_does_not_shift_the_others() -> None:
    one = [_tool(number, name) for number, name in enumerate("abcd")]
    other = [_tool(number, name) for number, name in enumerate("abxcd")]
    assert _compare(one, other) == [("/effects/+2", ABSENT, "tool x", "critical", False)]
    turned = [_tool(0, "b", x=2), _tool(1, "x"), _tool(2, "d")]
    found = _compare([_tool(0, "a"), _tool(1, "b", x=1), _tool(2, "d")], turned)
    assert [each[0] for each in found] == ["/effects/0", "/effects/1/inputs/x", "/effects/+1"]
    later = [_tool(0, "a"), _tool(1, "x"), _tool(2, "b", x=2)]
    found = _compare([_tool(0, "a"), _tool(1, "b", x=1)], later)
    assert [(each[0], each[4]) for each in found] == [("/effects/+1", False), ("/effects/1/inputs/x", True)]
    mixed = [_tool(number, name) for number, name in enumerate("bxcyd")]
    assert [each[0] for each in _compare(one, mixed)] == ["/effects/0", "/effects/+1", "/effects/+3"]


def test_another_answer_is_major_and_other_bytes_of_one_meaning_minor() -> None:
    answered = [_model(0, "hello", answer={"status": 500, "body": b"no", "latencyMs": 3}), *RUN[1:]]
    assert _compare(RUN, answered) == [
        ("/effects/0/answer/status", 200, 500, "major", False),
        ("/effects/0/answer/body", "hi", "no", "major", False),
        ("/effects/0/answer/latencyMs", ABSENT, 3, "informational", False),
    ]
    call = RUN[2].call
    assert isinstance(call, Request)
    spaced = ComparedEffect(2, "0", call._replace(body=call.body.replace(b" ", b"")))
    found = compare(RUN, [*RUN[:2], spaced])
    assert found.equivalent
    assert [(one.path, one.severity) for one in found.divergences] == [("/effects/2/notes", "minor")]


def test_an_outcome_differs_leaf_by_leaf_with_both_texts() -> None:
    other = {"exitCode": False, "stdout": b"done\nmore\n", "stderr": b"w", "filesWritten": {"b.txt": "sha256:2"}}
    found = [
        (each.path, each.original, each.replay, each.severity) for each in compare_values(OUTCOME, other, at="/outcome")
    ]
    assert found == [
        ("/outcome/exitCode", 0, False, "critical"),
        ("/outcome/stdout", "done\n", "done\nmore\n", "critical"),
        ("/outcome/stderr", "", "w", "informational"),
        ("/outcome/filesWritten/a.txt", "sha256:1", ABSENT, "critical"),
        ("/outcome/filesWritten/b.txt", ABSENT, "sha256:2", "critical"),
    ]
    assert compare_values({"a/b": b"\xff\x00"}, {"a/b": b"\xff\x01"}) == [
        Divergence("/a~1b", Span(1, 2, b"\xff\x00"), Span(1, 2, b"\xff\x01"), "critical")
    ]
    assert compare_values({"a": "x"}, {"a": b"x"}) == [Divergence("/a", "x", b"x", "critical")]
    assert compare_values({"a": {}}, {"a": 1}) == [Divergence("/a", {}, 1, "critical")]
    assert compare_values({"a": 1}, {"a": {}}) == [Divergence("/a", 1, {}, "critical")]
    assert compare_values({"a": b"x"}, {"a": "x"}) == [Divergence("/a", b"x", "x", "critical")]
    assert compare_values([1, b"x"], [1, b"y"]) == [Divergence("/1", b"x", b"y", "critical")]
    assert compare_values({"a": b"x"}, {}) == [Divergence("/a", b"x", ABSENT, "critical")]


def test_the_most_severe_comes_first_and_equals_keep_their_order() -> None:
    found = [
        Divergence(path, 0, 1, severity)
        for path, severity in [("/a", "minor"), ("/b", "critical"), ("/d", "minor"), ("/c", "major")]
    ]  # type: ignore[arg-type]
    assert [(one.path, one.consequence) for one in arranged(found)] == [
        ("/b", False), ("/c", True), ("/a", False), ("/d", False),
    ]  # fmt: skip


def test_two_long_unlike_lists_are_paired_by_position() -> None:
    one = [_tool(number, f"a{number}") for number in range(1100)]
    other = [_tool(number, f"b{number}") for number in range(1100)]
    found = compare(one, other).divergences
    assert len(found) == 1100
    assert found[0].path == "/effects/0/name"


def _run(items: list[tuple[str, str, int]]) -> list[ComparedEffect]:
    return [_tool(number, name, path, answer=x, x=x) for number, (name, path, x) in enumerate(items)]


effects = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["0", "0.1"]), st.integers(0, 2)), max_size=8).map(
    _run
)


@given(effects, effects)
def test_comparing_is_symmetric_and_equal_only_to_the_same(
    one: list[ComparedEffect], other: list[ComparedEffect]
) -> None:
    there, back = compare(one, other), compare(other, one)
    assert there.equivalent == back.equivalent

    def by_path(run: list[ComparedEffect]) -> dict[str, list[Any]]:
        paths: dict[str, list[Any]] = {}
        for effect in run:
            paths.setdefault(effect.task_path, []).append((effect.call, effect.answer))
        return paths

    assert there.equivalent == (by_path(one) == by_path(other))
    assert compare(one, one).divergences == ()


@given(effects.filter(bool), st.data())
def test_one_changed_input_is_found_and_named(run: list[ComparedEffect], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(run) - 1))
    old = run[at]
    changed = [*run[:at], _tool(at, old.call.name, old.task_path, answer=old.answer, x=99), *run[at + 1 :]]  # type: ignore[union-attr]
    found = compare(run, changed).divergences
    assert [(one.path, one.replay, one.effect) for one in found] == [(f"/effects/{at}/inputs/x", 99, at)]
