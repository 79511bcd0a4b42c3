"""Declared effects: tools, retrievals, externals, drawn from kind, name and inputs.

A declared effect is the recorded one if its kind, its name and its encoded inputs are the same bytes
(`formats.values`: the encoding is deterministic, so equal inputs have equal bytes). There is no looser match: a renamed
tool never gets the result of the old one (R11). A difference is named by the first differing leaf, in the order
`/kind`, `/name`, `/inputs/...`, with the inputs read as plain values and no class of the program touched.
"""

from __future__ import annotations

from typing import NamedTuple

from tachograph.comparison.leaves import Leaf, byte_difference, first_difference, tree_of
from tachograph.comparison.requests import RequestVerdict
from tachograph.errors import FormatError
from tachograph.formats.value_view import view


class Declared(NamedTuple):
    """A call of a declared tool, retrieval or external; `inputs` is what `formats.values.encode` made of them."""

    kind: str
    name: str
    inputs: bytes = b""


def compare_declared(recorded: Declared, replayed: Declared) -> RequestVerdict:
    """Compare a recorded call with one that a replay makes: `exact` or `different`, never anything between."""
    if recorded == replayed:
        return RequestVerdict("exact")
    if recorded.kind != replayed.kind:
        return RequestVerdict("different", (), Leaf("/kind", recorded.kind, replayed.kind))
    if recorded.name != replayed.name:
        return RequestVerdict("different", (), Leaf("/name", recorded.name, replayed.name))
    return RequestVerdict("different", (), _input_difference(recorded.inputs, replayed.inputs))


def _input_difference(recorded: bytes, replayed: bytes) -> Leaf | None:
    try:
        first = first_difference(tree_of(view(recorded)), tree_of(view(replayed)), at="/inputs")
    except FormatError:
        first = None  # written by no encoder that we know
    # Two encodings can have one view (keys in another order): they differ all the same.
    return first or byte_difference(recorded, replayed, at="/inputs")
