"""The meaning of the terms in a report."""

from __future__ import annotations

from modescope.analysis.format import numbers
from modescope.analysis.report.study import Study
from modescope.bench.stats.estimates import ALPHA, MARGIN

_CONFIDENCE = numbers.whole_percent(1 - ALPHA)
_MARGIN = numbers.whole_percent(MARGIN)

TERMS = {
    "colours and markers": "each family of modes has a colour (grey: eager; orange: autocast; "
    "blue: compiled; green: compiled with CUDA graphs; pink: captured by hand) and each mode has a "
    "marker. They are the same in figures, tables and text. A filled marker means faster or slower "
    f"beyond ±{_MARGIN}.",
    "latency": "the time that a caller waits for one call: the baseline's latency (the median of "
    "its rows) ÷ the speedup, so that latencies compare as speedups do. slowest pace: how fast "
    "the machine was in the slowest of these rounds, relative to the fastest, by the time of a "
    "fixed piece of Python code (5th ÷ 95th percentile). at full pace: the median of latency ÷ "
    "time of that code, × its shortest time in this environment, so that absolute times are "
    "compared at equal pace. The interval of the latency "
    "covers one process; other processes of the same code differ by more. Replicates are processes "
    "of the same case: each counts as one value, and the interval covers the differences between "
    f"them. Two replicates give their range instead of a {_CONFIDENCE} interval, and no mde. p95: "
    "5 % of calls take longer.",
    "speedup": "baseline ÷ case. Both are timed in every round, in random order; the median over "
    f"rounds. The interval contains the true value in {_CONFIDENCE} of such runs. This holds for "
    "each row alone: the interval is not widened for the number of modes.",
    "verdict": f"faster or slower if the whole interval lies beyond ±{_MARGIN}, equivalent if it "
    "lies within, else inconclusive. Not in effect: torch ran something other than the mode's name "
    "says. Any other word is the status of a run without a result.",
    "noise floor": "the baseline measured against itself, like any other case. If its interval "
    "excludes 1×, it shows a difference where there is none, and only modes that gain more than "
    "that are recommended: more than 1 ÷ 0.95 = 1.05× if the interval is [0.95, 0.98].",
    "mde": "minimum detectable effect: the smallest true change that 80 % of such runs would show.",
    "same grad": "the speedup over plain eager with the same grad axis. It does not credit a "
    "compiled mode with what inference_mode gains alone.",
    "dispatch": "the time of the same call on an empty batch, which does no work: Python, "
    "dispatcher, autograd, guards and allocation. On a CPU, the rest of a call is work. On CUDA, "
    "the host also launches kernels, while the device works in parallel. Its share of the call is "
    "the median over rounds of dispatch ÷ latency of the same round, which a change of the "
    "machine's pace leaves as it is; so are all shares, and the parts of a call are its latency × "
    "these shares.",
    "host, device, pipelined": "how long the host is busy with a call; how long the device works "
    "on it; the time per further call if nobody waits between calls.",
    "forward, backward, optimizer, scaler": "parts of a training step, measured in a separate pass "
    "that waits after each part. Forward includes the loss; optimizer includes dropping the "
    "gradients. of the step: the sum of the parts ÷ the whole step, the median over blocks that "
    "time both. It is more than 100 % if waiting costs time or if parts overlap.",
    "kernels": "the number in one call, counted by the profiler. On a CPU: operators that do the "
    "work themselves, and fused C++ kernels. launches: what the host submits to a GPU. idle: the "
    "share of the latency in which nothing runs on the GPU. The profile comes from a separate "
    "pass, so idle is not paired within rounds.",
    "fusion gain, alone, launch gain": "fusion gain: work of plain eager with the same grad axis "
    "and dtype ÷ work of this mode. Work is device time; on a CPU it is latency minus dispatch. "
    "Both are compared through their baseline, which each row measures in the same rounds. The "
    "interval combines the extremes of both rows and covers one process. alone: the speedup if "
    "nothing but the work changed; it is small if overhead dominates. launch gain: same grad ÷ "
    "alone, the gain in launching and dispatch.",
    "of the roofline": "shortest possible time ÷ measured time of the work. The shortest possible "
    "time follows from the counted work and the highest rates measured on this device and dtype. "
    "compute: arithmetic limits it; memory: bandwidth limits it. Above 100 %, the work exceeded "
    "the measured rates, for example because data stayed in a cache; the limit does not apply "
    "then.",
    "peak": "memory held between calls, plus the call peak, plus what a graph pool keeps free for "
    "its replays, as counted by the allocator. call peak: the most memory that a steady call takes "
    "in addition to what is held between calls. Memory held besides weights and "
    "inputs is, on CUDA, mostly the workspace of cuBLAS. setup peak: the peak of the first call "
    "above what was held before it. On a CPU it is the growth of the process, compiler included, "
    "and not comparable between modes.",
    "gradients, optimizer state": "memory held between two training steps. A step drops its "
    "gradients first, so forward can use that memory for saved activations; a graph pool keeps it. "
    "saved activations: what forward saves for backward, including weights cast by autocast.",
    "operators, leaves": "operators: operator calls in one call of the model, from Python, "
    "autograd or compiled code. leaves: those that call no other operator. launch delay: from the "
    "start of a launch to the start of its kernel. with profiler: latency under the profiler ÷ "
    "latency without. generated: calls of generated kernels. extern: operators and library "
    "functions called by generated code.",
    "bytes moved": "what compiled code reads and writes, as counted by the compiler; in brackets, "
    "the difference from all operators of eager. from cache: pieces of compiled code that came "
    "from the compiler's cache. allocations: number and size in one steady call.",
    "graph breaks": "places in the model where torch.compile split its graph, with the reason for "
    "the first. Each place counts once, however often it is reached. in eager: functions that a "
    "break leaves to Python, completely (a break in a loop does that) or from the break to their "
    "end.",
    "first call": "the time to compile, autotune and capture. pays after: the number of calls "
    "until the time gained exceeds the time spent, if the whole interval of the speedup lies above "
    f"1×; never if it does not; {numbers.UNKNOWN} if the verdict is inconclusive or the mode is "
    "not in effect. First calls are measured once. If nothing is compiled or captured, a "
    "difference between them counts as noise: the mode pays at once, or "
    f"{numbers.UNKNOWN} if its first call took more than twice as long as the baseline's and 0.1 s "
    "more.",
    "error": "relative RMS error against float64, or what else checked against names. Compare it "
    "before you replace fp32 by a smaller dtype.",
    "checked": "exact: the error is that of the timed step. without randomness: the timed step's "
    "random numbers (such as dropout) were compared with eager's, and the error is that of a copy "
    "that is built and compiled the same, without them. no (remark: not checked): the results "
    "could not be judged, so whether the mode computes the right thing is unknown; about the "
    "check says why.",
    "checked on, checked against": "checked on: fresh inputs; floats, if only floating inputs "
    "could be redrawn; rebuilt, if the model's function had to make them; or the example. checked "
    "against: float64; or plain eager, in fp32 or in the model's own dtypes, if the model does not "
    "compute the same in float64.",
    "error of, error limit, scale error, loss scale": "error of: the output, gradient or update "
    "with that error. error limit: the largest error accepted. scale error: how far the factor "
    "between a gradient or update and that of float64 is from 1. loss scale: the factor of "
    "GradScaler, and whether it skipped a step that was made to overflow.",
    numbers.UNKNOWN: "unknown or not applicable; never 0.",
}

OF_TRAINING = {
    "parts of a step": "forward (with the loss), backward, optimizer, and scaler if GradScaler is "
    "used. They are measured in a separate pass that waits after each part. Waiting takes time and "
    "prevents parts from overlapping, so the parts need not add up to the step (of the step).",
    "undivided step": "the training step measured as a whole. Latency and speedup are those of the "
    "undivided step, and the sum of the parts is compared with it.",
    "gradients": "memory held between two steps. A step drops them first and makes them anew, so "
    "they take no memory while forward saves activations.",
    "loss scale": "the factor by which GradScaler multiplies the loss, so that small gradients "
    "do not vanish in fp16. overflow skipped: GradScaler skipped a step that was made to overflow, "
    "as it must.",
    "saved activations": "what forward keeps for backward. It grows with the batch. Checkpointing "
    "recomputes it instead.",
}


def terms(study: Study) -> dict[str, str]:
    """The terms for this study: those of training only if training was measured."""
    trained = "train" in set(study.rows["phase"])
    return TERMS | OF_TRAINING if trained else TERMS
