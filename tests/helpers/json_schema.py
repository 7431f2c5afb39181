"""Checks a document against a JSON Schema, as far as ours use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "null": (type(None),),
    "number": (int, float), "integer": (int,), "boolean": (bool,),
}  # fmt: skip
KNOWN = {
    *("$schema", "$defs", "$ref", "title", "description", "type", "enum", "const", "anyOf"),
    *("required", "properties", "additionalProperties", "items"),
}


def faults(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], at: str = ""
) -> Iterator[str]:
    """A line for each place at which `value` breaks `schema`."""
    if unknown := schema.keys() - KNOWN:
        raise NotImplementedError(f"{at}: {unknown}")
    if "$ref" in schema:
        yield from faults(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, at)
    if "anyOf" in schema and all([*faults(value, one, root, at)] for one in schema["anyOf"]):
        yield f"{at}: {value!r} fits none"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is not in {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    allowed = tuple(kind for name in names for kind in _TYPES[name])
    if allowed and (
        not isinstance(value, allowed)
        or ((value is True or value is False) and bool not in allowed)
    ):
        yield f"{at}: {value!r} is no {names}"
        return
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from (
            f"{at}: lacks {name}" for name in schema.get("required", ()) if name not in value
        )
        for name, inner in value.items():
            if name in properties:
                yield from faults(inner, properties[name], root, f"{at}/{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{at}: has {name}"
    if isinstance(value, list) and "items" in schema:
        for place, inner in enumerate(value):
            yield from faults(inner, schema["items"], root, f"{at}/{place}")
