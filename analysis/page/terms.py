"""What the words of a report mean."""

from __future__ import annotations

from analysis import numbers
from analysis.page.study import Study
from bench.stats import ALPHA, MARGIN

_CONFIDENCE = numbers.whole_percent(1 - ALPHA)
_MARGIN = numbers.whole_percent(MARGIN)

TERMS = {
    "colours and markers": "a colour for each family of modes (grey: eager; orange: autocast; "
    "blue: compiled; green: compiled and in CUDA graphs; pink: captured by hand) and a marker for "
    "each mode, the same in figures, tables and text. Filled: decided beyond the limits.",
    "latency": "what a caller sees who waits for each call; median over rounds. Its interval holds "
    "within one process; other processes of the same code differ by more. Replicates are "
    "processes: each counts once, and the interval is then that between them; of two it is no "
    f"{_CONFIDENCE} interval but the range of two processes, and mde is left open. p95: one call "
    "in twenty takes longer.",
    "speedup": "baseline ÷ case, both timed in every round in random order; median over rounds. "
    f"The interval covers the truth in {_CONFIDENCE} of such runs, for each row alone: it is not "
    "widened for the number of modes.",
    "verdict": f"faster or slower where the interval lies beyond ±{_MARGIN}, equivalent where it "
    "lies inside, else inconclusive. Not in effect: torch gave something else than the mode's name "
    "says. Any other word is how a run ended that has no result.",
    "noise floor": "the baseline against itself, measured as any other case: what lies within its "
    "interval is no difference.",
    "mde": "the smallest true change that would have shown in 80 % of such runs.",
    "same grad": "speedup beyond plain eager with the same grad axis, so that a compiled mode is "
    "not credited with what inference_mode gains by itself.",
    "dispatch": "the same call on an empty batch, where it does no work: Python, dispatcher, "
    "autograd, guards and allocation. The rest of a call on a CPU is work. On CUDA the host goes "
    "on to launch, while the device works beside it.",
    "host, device, pipelined": "how long the host is busy issuing a call, how long the device "
    "works on it, and what a further call adds when none is waited for.",
    "forward, backward, optimizer, scaler": "parts of a training step, each waited for, in a pass "
    "of their own; forward has the loss, optimizer drops the gradients. of the step: what they add "
    "up to, over the undivided step: more than 100 % where waiting costs or parts overlap.",
    "kernels": "of one call, under the profiler. On a CPU an operator that does work of its own, "
    "or a fused C++ kernel. launches: what the host hands to a GPU; idle: the part of the latency "
    "in which nothing ran there.",
    "fusion gain, alone, launch gain": "work of plain eager with the same grad axis and dtype ÷ "
    "work of this mode; work is device time, on a CPU what dispatch leaves of the latency. Its "
    "interval is the worst case of both rows, within each process; on CUDA, where device times "
    "have no pair, other processes may differ by more. alone: the speedup that this would give if "
    "nothing else changed, little where overhead sets the pace. launch gain: what is left of same "
    "grad beyond that, due to launching and dispatch.",
    "of the roofline": "the least time that the counted work can take at the highest rates "
    "measured on this device and dtype (compute: arithmetic sets it; memory: bandwidth) ÷ the time "
    "that the work takes. Above 100 %, the work beat those rates, as what stays in a cache does, "
    "and there is no floor to speak of.",
    "peak": "what is held between calls, the peak of a call above it, and what a graph's pool "
    "keeps free for its replays, as the allocator counts. Of what is held, all but weights and "
    "inputs is kept besides, on CUDA largely the workspace of cuBLAS. setup peak: of the first "
    "call, above what was held before; on a CPU it is the growth of the process, with "
    "the compiler in it, and does not compare.",
    "gradients, optimizer state": "held between two steps of training. A step drops its gradients "
    "before it begins, so their room is free for what forward saves; a graph's pool keeps it. "
    "saved activations: what forward saves for backward, casted weights included.",
    "operators, leaves": "operators of one call, from Python, autograd or compiled code, and those "
    "that call no further one. launch delay: from the start of a launch to that of its kernel. "
    "with profiler: latency under it ÷ latency without. generated, extern: calls of generated "
    "kernels, and of operators and libraries from generated code.",
    "bytes moved": "what compiled code reads and writes, as the compiler counts, and how much less "
    "than all operators of eager. from cache: pieces of compiled code that were not compiled now. "
    "allocations: of a steady call.",
    "graph breaks": "expressions of the model at which torch.compile broke its graph, and its "
    "reason for the first; each counts once, however often it is reached. in eager: functions that "
    "a break left to Python, as a whole (one in a loop does) or from the break to their end.",
    "first call": "compile, autotune and capture. pays after: calls until the time gained has paid "
    "for it. First calls are read once, so where nothing is compiled or captured a difference is "
    f"taken for chance: it pays at once, or {numbers.UNKNOWN} where the first call took more than "
    "twice as long as the baseline's and 0.1 s more.",
    "error": "relative RMS error against float64. Compare it before you trade fp32 for a smaller "
    "dtype.",
    "error of, loss scale": "which output, gradient or update has that error. The "
    "factor of a GradScaler, and whether it skipped a step that was made to overflow.",
    numbers.UNKNOWN: "unknown.",
}

OF_TRAINING = {
    "parts of a step": "forward (with the loss), backward, optimizer, and scaler where GradScaler "
    "is used, each waited for, in a pass of their own. Waiting costs, and what one part leaves "
    "running while the next begins is lost, so they need not add up to the step (of the step).",
    "undivided step": "the training step that nobody takes apart: latency and speedup are its, and "
    "the parts are held against it.",
    "gradients": "held between two steps. A step drops them before it begins and makes them anew, "
    "so they are away while forward saves activations.",
    "loss scale": "the factor by which GradScaler multiplies the loss, so that small gradients of "
    "fp16 do not vanish. overflow skipped: a step that was made to overflow was left out, as it "
    "has to be.",
    "saved activations": "what forward keeps for backward; it grows with the batch, and is what "
    "checkpointing makes anew instead.",
}


def terms(study: Study) -> dict[str, str]:
    """Those that the pages of this study use: the words of training only where a step was timed."""
    trained = "train" in set(study.rows["phase"])
    return TERMS | OF_TRAINING if trained else TERMS
