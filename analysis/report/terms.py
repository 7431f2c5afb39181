"""The meaning of the terms in a report."""

from __future__ import annotations

from modescope.analysis.format import numbers
from modescope.analysis.report.study import Study
from modescope.bench.stats.estimates import ALPHA, MARGIN

_CONFIDENCE = numbers.whole_percent(1 - ALPHA)
_MARGIN = numbers.whole_percent(MARGIN)

TERMS = {
    "colours and markers": "grey: eager; orange: autocast; blue: compiled; green: compiled with "
    "CUDA graphs; pink: captured by hand. Each mode has its own marker, filled if the mode is "
    f"faster or slower beyond ±{_MARGIN}.",
    "speedup": "baseline ÷ case. Both are timed in every round, in random order; the median over "
    f"rounds. The interval contains the true value in {_CONFIDENCE} of such runs of one process. "
    "It is not widened for the number of modes.",
    "latency": "the time that a caller waits for one call: the baseline's latency ÷ the speedup, "
    "so that latencies compare as speedups do. p95: 5 % of calls take longer. slowest pace: how "
    "fast the machine was in the slowest rounds, relative to the fastest, by the time of fixed "
    "code. at full pace: the latency had the machine always been as fast as in its best round.",
    "replicates": "processes of the same case. Each counts as one value, and the interval covers "
    f"the differences between them. Two give their range instead of a {_CONFIDENCE} interval.",
    "verdict": f"faster or slower if the whole interval lies beyond ±{_MARGIN}, equivalent if it "
    "lies within, else inconclusive. Not in effect: torch ran something other than the mode's name "
    "says. Any other word is the status of a run without a result.",
    "mde": "minimum detectable effect: the smallest true change that 80 % of such runs would show.",
    "same grad": "the speedup over plain eager with the same grad axis. It does not credit a "
    "compiled mode with what inference_mode gains alone.",
    "dispatch": "the time of the same call on an empty batch, which does no work: Python, "
    "dispatcher, autograd, guards and allocation. On a CPU the rest of a call is work; on CUDA the "
    "host also launches kernels while the device works.",
    "host, device, pipelined": "how long the host is busy with a call; how long the device works "
    "on it; the time per further call if nobody waits between calls.",
    "forward, backward, optimizer, scaler": "parts of a training step, measured in a separate pass "
    "that waits after each part, so they need not add up to the step (of the step). Forward "
    "includes the loss; optimizer includes dropping the gradients.",
    "kernels": "the number in one call, counted by the profiler. On a CPU: operators that do the "
    "work themselves, and fused C++ kernels. launches: what the host submits to a GPU. idle: the "
    "share of the latency in which nothing runs on the GPU.",
    "fusion gain, alone, launch gain": "fusion gain: work of plain eager with the same grad axis "
    "and dtype ÷ work of this mode (device time; on a CPU latency minus dispatch). alone: the "
    "speedup if nothing but the work changed. launch gain: same grad ÷ alone.",
    "of the roofline": "shortest possible time ÷ measured time of the work, by the counted work "
    "and the highest rates measured on this device and dtype. Above 100 % the limit does not "
    "apply, for example because data stayed in a cache.",
    "peak": "memory held between calls, plus the call peak, plus what a graph pool keeps free for "
    "its replays. call peak: the most that a steady call takes in addition. setup peak: the peak "
    "of the first call; on a CPU the growth of the process, compiler included, and not comparable "
    "between modes.",
    "gradients, optimizer state": "memory held between two training steps. saved activations: what "
    "forward saves for backward, including weights cast by autocast.",
    "operators, leaves": "operators: operator calls in one call of the model. leaves: those that "
    "call no other operator. launch delay: from the start of a launch to the start of its kernel. "
    "with profiler: latency under the profiler ÷ latency without. generated: calls of generated "
    "kernels. extern: operators and library functions called by generated code.",
    "bytes moved": "what compiled code reads and writes, as counted by the compiler; in brackets, "
    "the difference from all operators of eager. from cache: pieces of compiled code that came "
    "from the compiler's cache. allocations: number and size in one steady call.",
    "graph breaks": "places in the model where torch.compile split its graph, each counted once. "
    "in eager: functions that a break leaves to Python.",
    "first call": "the time to compile, autotune and capture, measured once. pays after: the "
    "number of calls until the time gained exceeds the time spent; never if the interval of the "
    f"speedup does not lie above 1×; {numbers.UNKNOWN} if that is inconclusive.",
    "error": "relative RMS error against float64, or what else checked against names. error of: "
    "the output, gradient or update with that error. error limit: the largest error accepted. "
    "scale error: how far the factor between a gradient or update and that of float64 is from 1.",
    "checked": "exact: the error is that of the timed step. without randomness: that of a copy "
    "without dropout and the like. no (remark: not checked): the results could not be judged. "
    "checked on: fresh, partly fresh (floats), rebuilt or example inputs.",
    numbers.UNKNOWN: "unknown or not applicable; never 0.",
}

OF_TRAINING = {
    "undivided step": "the training step measured as a whole: latency and speedup are its.",
    "loss scale": "the factor by which GradScaler multiplies the loss, so that small gradients "
    "do not vanish in fp16. overflow skipped: GradScaler skipped a step that was made to overflow, "
    "as it must.",
}


def terms(study: Study) -> dict[str, str]:
    """The terms for this study: those of training only if training was measured."""
    trained = "train" in set(study.rows["phase"])
    return TERMS | OF_TRAINING if trained else TERMS
