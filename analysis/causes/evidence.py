"""Reads a row's evidence for the rules: texts, profiled kernels, and their shares of a call."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from modescope.analysis.derive.profile import DOUBTS
from modescope.analysis.format import numbers
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import value_of

UNRELIABLE = {*DOUBTS, "split_disagrees"}
"""Flags of a profile that does not agree with the clocks; rules do not read such a profile."""

_GENERATED = re.compile(r"(?:^|_)(?:cpp_fused|triton_)")
_PRODUCT = re.compile(
    r"^aten::(?:addmm|mm|_int_mm|bmm|baddbmm|linear|convolution|mkldnn_\w+"
    r"|_scaled_dot_product\w*|_scaled_mm|_weight_int\dpack_mm\w*)$|^onednn::qlinear"
    r"|gemm|gemv|nvjet|cutlass|xmma|fmha|flash|splitKreduce|^triton_tem_"
)
_INPUT_COPY = re.compile(r"multi_tensor_apply_kernel.*Copy|Memcpy DtoD")
_LONGEST_NAME = 40  # characters; names of C++ templates have hundreds
_MOST_NAMED = 2


@dataclass(frozen=True)
class Kernel:
    """All runs of one kernel in a profiled call, for one of the ten kernels with the most time.

    On a CPU, a kernel is an operator. `count`: its runs in the call. `seconds`: their total time.
    """

    name: str
    count: float
    seconds: float

    @property
    def is_generated(self) -> bool:
        """Whether Inductor generated the kernel, as C++ for a CPU or as Triton for a GPU."""
        return _GENERATED.search(self.name) is not None

    @property
    def is_template(self) -> bool:
        """Whether the kernel is a Triton template, which autotuning chose for a product."""
        return self.name.startswith("triton_tem_")

    @property
    def is_product(self) -> bool:
        """Whether the kernel computes matrix products, convolutions or attention.

        Of the kernels that Inductor generated, only Triton templates do.
        """
        is_fused = self.is_generated and not self.is_template
        return not is_fused and _PRODUCT.search(self.name) is not None


def texts(row: Mapping[str, Any], column: str) -> list[str]:
    """The texts in a column that holds a JSON list, or an empty list if the column has no value."""
    value = row.get(column)
    return [" ".join(str(text).split()) for text in json.loads(value)] if value else []


def kernels(row: Row | None) -> tuple[Kernel, ...]:
    """The heaviest kernels of a row; empty without a profile that agrees with the timings."""
    if row is None or not row["heaviest_kernels"] or not row["profiled_span_s"]:
        return ()
    if not UNRELIABLE.isdisjoint(predicates.flags(row)):
        return ()
    return _parse_kernels(row["heaviest_kernels"])


@lru_cache(maxsize=64)  # several rules read the same rows
def _parse_kernels(text: str) -> tuple[Kernel, ...]:
    return tuple(Kernel(**entry) for entry in json.loads(text))


def is_own(row: Row, name: str) -> bool:
    """Whether the kernel `name` is one that mode.kernels asks for.

    So are all operators of its namespace, such as its backward, which `kernel_names` has not.
    """
    own = texts(row, "kernel_names")
    spaces = {known.partition("::")[0] for known in own if "::" in known} - {"aten"}
    return name in own or name.partition("::")[0] in spaces


def seconds(several: Iterable[Kernel]) -> float:
    """The summed time of the kernels in `several`, in seconds."""
    return sum(kernel.seconds for kernel in several)


def fewer_kernels(row: Row, before: Row) -> str:
    """Says how many kernels became how many; empty if unknown, or if there are not fewer.

    On a CPU Inductor puts several loops into one function, fused or not, so its kernels are called
    what they are.
    """
    if predicates.on_cuda(row):
        return became(row, before, "kernels", "kernels")
    fewer = became(row, before, "kernels", "operators")
    return f"{fewer} operators and generated functions" if fewer else ""


def became(row: Row, before: Row, column: str, what: str) -> str:
    """Says how many of `what` became how many, if they are fewer: `40 operators became 10`."""
    then, now = value_of(before, column), value_of(row, column)
    if then is None or now is None or now >= then:
        return ""
    return f"{numbers.count(then)} {what} became {numbers.count(now)}"


def only_in(row: Row, other: Row | None) -> list[Kernel]:
    """The kernels of `row` that `other` does not have, by their names."""
    names = {kernel.name for kernel in kernels(other)}
    return [kernel for kernel in kernels(row) if kernel.name not in names]


def input_copies(row: Row, plain: Row | None) -> list[Kernel]:
    """The kernels that copy a call's inputs into a CUDA graph's buffers, which eager does not have.

    Empty for training, where an optimizer runs kernels of the same names.
    """
    if row["phase"] != "inference" or not row["graph_launches"]:
        return []
    return [kernel for kernel in only_in(row, plain) if _INPUT_COPY.search(kernel.name)]


def share_of_call(row: Row, part_s: float | None) -> float | None:
    """Returns `part_s` seconds as a share of `row`'s profiled call; None if unknown or above 1."""
    span_s = row["profiled_span_s"]
    if part_s is None or not span_s:
        return None
    share = float(part_s / span_s)
    return share if share <= 1 else None


def heaviest_names(several: Iterable[Kernel], row: Row) -> str:
    """The two heaviest kernels with their shares of a call: `aten::mm 75 %, aten::gelu 6 %`."""
    heaviest = sorted(several, key=lambda kernel: -kernel.seconds)[:_MOST_NAMED]
    return ", ".join(
        f"{shorten(kernel.name)} {numbers.share(kernel.seconds, row['profiled_span_s'])}"
        for kernel in heaviest
    )


def shorten(name: str) -> str:
    """Cuts `name` to 40 characters if it is longer."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def pace_ratio(row: Row, other: Row) -> float | None:
    """How many times slower the machine ran while `row` was profiled than while `other` was.

    A time of `row` divided by this ratio is comparable with a time of `other`. The ratio is 1 on
    CUDA, and None if one of the two speeds is unknown.
    """
    if predicates.on_cuda(row):
        return 1.0  # the pace is the host's, and kernels run on the device
    one_s, other_s = row["profiled_pace_s"], other["profiled_pace_s"]
    return float(one_s / other_s) if one_s and other_s else None


def durations(*times_s: float) -> list[str]:
    """Formats times that are compared with each other, all in one unit: `1.04 ms`, `0.698 ms`.

    The unit fits the longest time, or the shortest time if that is less than a tenth of the unit.
    """
    scale, unit = numbers.time_unit(max(times_s))
    if min(times_s) < scale / 10:
        scale, unit = numbers.time_unit(min(times_s))
    values = [time_s / scale for time_s in times_s]
    texts = (f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}" for value in values)
    return [f"{text} {unit}" for text in texts]


def first_and_count(reasons: Collection[Any]) -> str:
    """The first of several texts, and the number of the others: `graph break (and 2 more)`."""
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{next(iter(reasons))}{more}"
