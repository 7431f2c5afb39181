"""What a file of `chapters/` is written with: `lab.claim`, `lab.must` and so on."""

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims.claim import Values, claim
from modescope.bench.tools.claims.figures import Cases, Observed
from modescope.bench.tools.claims.functions import functions
from modescope.bench.tools.claims.measuring import (
    allocated_by,
    columns,
    compiler_work,
    first_call_s,
    load_compiler,
    refusal,
    speedup,
    watched,
    work_of,
)
from modescope.bench.tools.claims.rules import (
    Rule,
    between,
    converted,
    each_a_limit,
    expect,
    extremes,
    given,
    limit_if,
    must,
    must_lie,
    placed,
    require,
    should,
    unclear,
    undecided_if,
)
from modescope.bench.tools.claims.verdict import holds
