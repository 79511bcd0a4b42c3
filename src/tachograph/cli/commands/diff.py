"""`tacho diff A B`: two decisions, leaf by leaf."""

from __future__ import annotations

import sys

from tachograph.cli.commands.replay import sides
from tachograph.cli.options import IdArgument, JsonOption, StoreOption, open_, print_json, print_text


def diff(original: IdArgument, other: IdArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Compare two decisions leaf by leaf; exit 1 if they differ."""
    answer = open_(store).diff(original, other)
    if json:
        print_json(answer)
    elif answer.equal:
        print_text("the same: requests, answers, outputs, exit status")
    else:
        lines = []
        for item in answer.divergences[:50]:
            lines += [item.path, *sides(item, (answer.original, answer.other))]
        lines += [f"only in {answer.original}: {one}" for one in answer.onlyInOriginal]
        lines += [f"only in {answer.other}: {one}" for one in answer.onlyInOther]
        print_text("\n".join(lines))
    sys.exit(0 if answer.equal else 1)
