"""Compare: two lists of effects and two outcomes, recorded against replayed, or one run against another.

`compare(x, x)` is equal. Effects are laid side by side within each task path, in start order; what stands on one side
only, and what stands on both and differs, becomes a `Divergence` with its path, both values and its severity.
Invariants:

- each pair is judged by `compare_requests` or `compare_declared`, so `diff`, `replay` and matching never disagree;
- a step that was replaced by another is one divergence at what changed (`/effects/2/name`), not a loss and a gain;
- the first critical divergence in start order is the finding; all that follow it are marked `consequence` (R10, R12);
- order between task paths is informational, order within one is not;
- the result is sorted: the most severe first, and within one severity by start order.

Effects are numbered as the original has them; one that only the replay has carries its own number after a `+`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tachograph.comparison.declared import Declared, compare_declared
from tachograph.comparison.leaves import ABSENT, Leaf, byte_difference, differences, tree_of
from tachograph.comparison.requests import Request, RequestVerdict, compare_requests
from tachograph.comparison.severity import BREAKING, severity_of, weight
from tachograph.formats.credentials import comparable_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tachograph.comparison.severity import Severity

_MOST_CELLS = 1_000_000  # of the alignment table; beyond it, the middle of two long unlike lists is paired by position


@dataclass(frozen=True, slots=True)
class ComparedEffect:
    """One effect as a comparison sees it. `answer` is any JSON-like value, bytes allowed; None: not compared."""

    number: int
    task_path: str
    call: Request | Declared
    answer: Any = None

    @property
    def label(self) -> tuple[str, str, str]:
        """What makes two effects the same step: kind, method, and endpoint or name."""
        if isinstance(self.call, Declared):
            return self.call.kind, "", self.call.name
        return self.call.kind, self.call.method, comparable_url(self.call.url).partition("?")[0]

    @property
    def summary(self) -> str:
        """The label in words."""
        return " ".join([word for word in self.label if word])


@dataclass(frozen=True, slots=True)
class Divergence:
    """One difference: where, what the original has, what the replay has, how much it weighs, in which effect."""

    path: str
    original: Any
    replay: Any
    severity: Severity
    effect: int | None = None
    consequence: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences of two runs, sorted."""

    divergences: tuple[Divergence, ...] = field(default=())

    @property
    def equivalent(self) -> bool:
        """True if nothing critical or major differs."""
        return not any(one.severity in BREAKING for one in self.divergences)


def compare(
    original: Sequence[ComparedEffect],
    replay: Sequence[ComparedEffect],
    *,
    original_outcome: Mapping[str, Any] | None = None,
    replay_outcome: Mapping[str, Any] | None = None,
) -> Comparison:
    """Compare two runs: their effects in start order, then their outcomes (`exitCode`, `stdout`, ...)."""
    pairs = _pairs(original, replay)
    found = [one for pair in pairs for one in _compare_pair(*pair)]
    found += _order(pairs)
    found += compare_values(original_outcome or {}, replay_outcome or {}, at="/outcome")
    return Comparison(arranged(found))


def compare_values(original: Any, replay: Any, *, at: str = "", effect: int | None = None) -> list[Divergence]:
    """Compare two JSON-like values, bytes allowed, leaf by leaf."""
    return [
        Divergence(leaf.path, leaf.recorded, leaf.replayed, severity_of(leaf.path), effect)
        for leaf in _leaves(original, replay, at)
    ]


def arranged(found: Iterable[Divergence]) -> tuple[Divergence, ...]:
    """Mark what follows the first critical divergence as its consequence, and sort by severity, keeping the order."""
    out: list[Divergence] = []
    after = False
    for one in found:
        out.append(replace(one, consequence=True) if after and one.severity in BREAKING else one)
        after = after or one.severity == "critical"
    return tuple(sorted(out, key=lambda one: weight(one.severity)))


# --- one pair ---------------------------------------------------------------------------------------------------------


def _compare_pair(one: ComparedEffect | None, other: ComparedEffect | None) -> list[Divergence]:
    if one is None and other is not None:
        path = f"/effects/+{other.number}"
        return [Divergence(path, ABSENT, other.summary, severity_of(path), other.number)]
    if one is None:
        return []
    at = f"/effects/{one.number}"
    if other is None:
        return [Divergence(at, one.summary, ABSENT, severity_of(at), one.number)]
    verdict = _judge(one.call, other.call)
    found: list[Divergence] = []
    if verdict.first is not None:
        path = at + verdict.first.path
        found.append(Divergence(path, verdict.first.recorded, verdict.first.replayed, severity_of(path), one.number))
    elif verdict.notes:
        path = at + "/notes"
        found.append(Divergence(path, "recorded bytes", "; ".join(verdict.notes), severity_of(path), one.number))
    if one.answer is None or other.answer is None or (one.label != other.label and found):
        return found  # the answers of two different steps have nothing to do with each other
    return found + compare_values(one.answer, other.answer, at=at + "/answer", effect=one.number)


def _judge(one: Request | Declared, other: Request | Declared) -> RequestVerdict:
    if isinstance(one, Request) and isinstance(other, Request):
        return compare_requests(one, other)
    if isinstance(one, Declared) and isinstance(other, Declared):
        return compare_declared(one, other)
    return RequestVerdict("different", (), Leaf("/kind", one.kind, other.kind))


def _leaves(original: Any, replay: Any, at: str) -> Iterable[Leaf]:
    """Differences of values that may hold bytes: text where both sides are, else the first byte that differs."""
    if isinstance(original, bytes) and isinstance(replay, bytes):
        if original != replay:
            try:
                yield Leaf(at, original.decode("utf-8"), replay.decode("utf-8"))
            except UnicodeDecodeError:
                yield byte_difference(original, replay, at=at) or Leaf(at, original, replay)
    elif isinstance(original, dict) and isinstance(replay, dict):
        for key in [*original, *[key for key in replay if key not in original]]:
            step = str(key).replace("~", "~0").replace("/", "~1")
            yield from _leaves(original.get(key, ABSENT), replay.get(key, ABSENT), f"{at}/{step}")
    else:
        yield from differences(tree_of(original), tree_of(replay), at=at)


# --- side by side -----------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    Pair = tuple[ComparedEffect | None, ComparedEffect | None]


def _pairs(original: Sequence[ComparedEffect], replay: Sequence[ComparedEffect]) -> list[Pair]:
    """Pair the effects of each task path, and list the pairs in the start order of the original."""
    paths: dict[str, tuple[list[ComparedEffect], list[ComparedEffect]]] = {}
    for side, effects in enumerate((original, replay)):
        for effect in effects:
            paths.setdefault(effect.task_path, ([], []))[side].append(effect)
    place = {id(effect): position for position, effect in enumerate(original)}
    keyed: list[tuple[int, Pair]] = []
    for ones, others in paths.values():
        last = -1  # what only the replay has stands behind the effect of its path that it follows
        for one, other in _aligned(ones, others):
            last = place[id(one)] if one is not None else last
            keyed.append((last, (one, other)))
    return [pair for _, pair in sorted(keyed, key=lambda one: one[0])]


def _aligned(ones: list[ComparedEffect], others: list[ComparedEffect]) -> list[Pair]:
    """Lay two lists side by side by their labels: shared ends first, then the longest common run of the middle."""
    start = 0
    while start < min(len(ones), len(others)) and ones[start].label == others[start].label:
        start += 1
    end = 0
    while end < min(len(ones), len(others)) - start and ones[-1 - end].label == others[-1 - end].label:
        end += 1
    pairs: list[Pair] = list(zip(ones[:start], others[:start], strict=True))
    pairs += _middle(ones[start : len(ones) - end], others[start : len(others) - end])
    pairs += list(zip(ones[len(ones) - end :], others[len(others) - end :], strict=True))
    return pairs


def _middle(ones: list[ComparedEffect], others: list[ComparedEffect]) -> list[Pair]:
    matches = _common(ones, others) if len(ones) * len(others) <= _MOST_CELLS else []
    pairs: list[Pair] = []
    here = there = 0
    for one, other in [*matches, (len(ones), len(others))]:
        gap, gain = ones[here:one], others[there:other]
        for index in range(max(len(gap), len(gain))):
            pairs.append((gap[index] if index < len(gap) else None, gain[index] if index < len(gain) else None))
        if one < len(ones):
            pairs.append((ones[one], others[other]))
        here, there = one + 1, other + 1
    return pairs


def _common(ones: list[ComparedEffect], others: list[ComparedEffect]) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence of the labels."""
    left, right = [one.label for one in ones], [one.label for one in others]
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        for j in range(len(right) - 1, -1, -1):
            same = left[i] == right[j]
            table[i][j] = table[i + 1][j + 1] + 1 if same else max(table[i + 1][j], table[i][j + 1])
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _order(pairs: list[Pair]) -> list[Divergence]:
    """Say, for information, that effects of different task paths started in another order."""
    both = [(one.number, other.number) for one, other in pairs if one is not None and other is not None]
    replayed = [one for one, _ in sorted(both, key=lambda pair: pair[1])]
    recorded = [one for one, _ in both]
    if recorded == replayed:
        return []
    return [Divergence("/effects/order", recorded, replayed, severity_of("/effects/order"))]
