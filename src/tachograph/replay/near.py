"""Which recording a declared call that nothing fits comes nearest to, and where the two first differ.

In this order: the recording of that name on this path, then on any; what the program did next here (a renamed step);
one of that name that was served already. Standard library only.
"""

from __future__ import annotations

from tachograph.comparison.declared import Declared, compare_declared
from tachograph.comparison.leaves import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tachograph.model.effect import Effect


def nearest_declared(
    effects: list[Effect], is_free: Callable[[Effect], bool], *, kind: str, name: str, inputs: bytes, path: str
) -> dict[str, Any]:  # fmt: skip
    """Return `nearest` (the effect's number) and `firstDifference`, each where there is one."""
    alike = [one for one in effects if one.kind == kind]
    ranks = (
        [one for one in alike if is_free(one) and one.name == name and one.path == path],
        [one for one in alike if is_free(one) and one.name == name],
        [one for one in alike if is_free(one) and one.path == path],
        [one for one in alike if one.name == name],
    )
    effect = next((rank[0] for rank in ranks if rank), None)
    if effect is None:
        return {}
    found: dict[str, Any] = {"nearest": effect.index}
    leaf = compare_declared(Declared(kind, effect.name, effect.inputs), Declared(kind, name, inputs)).first
    if leaf is not None:
        found["firstDifference"] = {
            "path": leaf.path, "recorded": as_json(leaf.recorded), "replayed": as_json(leaf.replayed),
        }  # fmt: skip
    return found
