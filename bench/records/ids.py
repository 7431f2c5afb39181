"""Ids: hashes of canonical JSON."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, fields
from typing import Any


def canonical_json(value: Any) -> str:
    """`value` as JSON that is equal whenever the value is: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def short_hash(value: Any) -> str:
    """16 hexadecimal digits that are equal whenever `value`, which JSON can hold, is."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def stated(options: Any) -> dict[str, Any]:
    """The record's fields without those at their defaults, so that new options change no id."""
    return {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.default is MISSING or getattr(options, field.name) != field.default
    }
