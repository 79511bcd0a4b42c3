"""A value that fits a JSON schema, filled from texts: how a scripted brain writes a tool's arguments.

Numbers are taken from the texts: for `refund_window_days` the first number that stands before the word `days`, else the
first number at all. Strings get the last text. The same schema and texts give the same value, always. Enough of JSON
Schema for tools as people write them: object, array, enum, const, anyOf, `$ref` into `$defs`, minimum and maximum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]
_DEEPEST = 20  # a schema that refers to itself ends here


def instance_of(schema: Schema, texts: Sequence[str]) -> Any:
    """A value for `schema`; `texts` are searched in their order, so the most telling goes first."""
    return _value(schema, "", texts, schema, 0)


def _value(schema: Schema, name: str, texts: Sequence[str], root: Schema, depth: int) -> Any:
    if depth > _DEEPEST:
        return None
    if "$ref" in schema:
        return _value(_referred(schema["$ref"], root), name, texts, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        named = (value for value in schema["enum"] if any(str(value).lower() in text.lower() for text in texts))
        return next(named, schema["enum"][0])
    for several in ("anyOf", "oneOf", "allOf"):
        if schema.get(several):
            return _value(schema[several][0], name, texts, root, depth + 1)
    match _type(schema):
        case "object":
            properties = schema.get("properties", {})
            wanted = schema.get("required", list(properties))
            return {key: _value(properties.get(key, {}), key, texts, root, depth + 1) for key in wanted}
        case "array":
            count = schema.get("minItems", 0)
            return [_value(schema.get("items", {}), name, texts, root, depth + 1) for _ in range(count)]
        case "integer" | "number" as kind:
            return _number(schema, name, texts, whole=kind == "integer")
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return texts[-1] if texts else ""


def _type(schema: Schema) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return str(kind[0] if isinstance(kind, list) else kind)


def _number(schema: Schema, name: str, texts: Sequence[str], *, whole: bool) -> int | float:
    unit = re.split(r"[_\W]|(?<=[a-z])(?=[A-Z])", name)[-1].lower() if name else ""
    patterns = [rf"(-?\d+(?:\.\d+)?)\s+{re.escape(unit)}\b"] if unit else []
    found = 0.0
    for pattern in [*patterns, r"(-?\d+(?:\.\d+)?)"]:
        match = next((hit for text in texts if (hit := re.search(pattern, text, re.IGNORECASE))), None)
        if match:
            found = float(match[1])
            break
    bounded = min(max(found, schema.get("minimum", found)), schema.get("maximum", found))
    return int(bounded) if whole or bounded == int(bounded) else bounded


def _referred(reference: str, root: Schema) -> Schema:
    place: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        place = place.get(step, {}) if isinstance(place, Mapping) else {}
    return place if isinstance(place, Mapping) else {}
