"""Types of the rules that refuse a combination: a condition and a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modescope.bench.records.cases import Case, Variant
from modescope.bench.records.environment import DeviceFacts

VariantRule = tuple[Callable[[Variant, Any, DeviceFacts], bool], str]
"""For a case and its baseline: a condition on variant, options of the phase and device."""

CaseRule = tuple[Callable[[Case, Any], bool], str]
"""For the case only: its baseline has the same options, but they may not matter to it."""
