"""Sets torch up for a case, in each process that measures it, fills a cache for it, or starts."""

from __future__ import annotations

import torch

from modescope.bench.modes import axes, fp32_products
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import Case
from modescope.bench.records.plans import Plan


def set_up_torch(case: Case, plan: Plan) -> None:
    """Sets all global settings of torch on which a measurement depends."""
    torch.set_num_threads(case.threads)
    fp32_products.use(case.variant.dtype)
    axes.set_up(case.variants)
    torch.manual_seed(plan.seed)
    phase_of(case.options).apply_settings()
    CACHES[plan.compile_cache].set_up()
