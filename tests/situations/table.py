"""Situations with a known cause, and cases of which is known what may be named.

A complaint is what somebody reported about PyTorch, rebuilt as a small model: its cause has to be
named first. The other cases have no such defect: a cause that is not in `true` is not there. Both
were written down before they were measured.
"""

from __future__ import annotations

from dataclasses import dataclass

MODELS = "tests.situations.models"
NATIVE = "this CPU has no bf16 instructions"


@dataclass(frozen=True)
class Measured:
    """A row, and the sweep that measures it and what it is compared with."""

    title: str
    sweep: str  # arguments of `python run.py -m`
    row: str  # an expression for --where that one row matches


@dataclass(frozen=True)
class Complaint(Measured):
    """A situation that somebody complained of."""

    number: int
    thread: str  # repository and number of the thread
    first: tuple[str, ...]  # codes, one of which has to be named first
    says: str  # a regular expression for the first sentence: the cause in words, with figures


@dataclass(frozen=True)
class Other(Measured):
    """A case without the defect of any complaint."""

    true: tuple[str, ...]  # codes that may be named
    because: str  # what the model and the mode are, from which it follows


def sweep_of(name: str, settings: str) -> str:
    """The arguments that measure a model of `models`."""
    return f"model=custom model.target={MODELS}:{name} {settings}"


def row_of(name: str, mode: str, more: str = "") -> str:
    """The expression for a row of a model of `models`."""
    row = f'model == "custom:{MODELS}:{name}" and mode == "{mode}"'
    return f"{row} and {more}" if more else row


EAGER_AND = "mode=inference_mode,compile"
TINY = sweep_of("tiny", EAGER_AND)
PERCEPTRON = sweep_of("perceptron", f"{EAGER_AND} profile=false")
THREADS = sweep_of("perceptron", "mode=eager threads=1,2")
GUARDED = sweep_of("adapters", EAGER_AND)
CACHES = sweep_of("norms", "mode=compile compile_cache=cold,warm")

COMPLAINTS = (
    Complaint("compiled, and slower: an overhead in every call", TINY,
              row_of("tiny", "compile", "threads == 1"), 1, "ScalingIntelligence/KernelBench#68",
              ("more_overhead",), r"guards\).* add [\d.]+ µs to a call.* lookup takes [\d.]+ µs"),
    Complaint("dozens of times slower: one call timed, compiling included",
              sweep_of("activations", "mode=compile"), row_of("activations", "compile"), 2,
              "pytorch/pytorch#121793", ("first_call",),
              r"first call takes [\d.]+ s, as long as [\d,]+ calls of the baseline: "),
    Complaint("the same where compiling gains nothing afterwards", sweep_of("layer", EAGER_AND),
              row_of("layer", "compile"), 2, "pytorch/pytorch#121793", ("unchanged_kernels",),
              r"after a first call of [\d.]+ s, as long as [\d,]+ calls of eager; \d+ % of a call"),
    Complaint("the cache lookup takes longer than the model", GUARDED,
              row_of("adapters", "compile"), 3, "pytorch/pytorch#191753",
              ("guards", "more_overhead"), r"(guards\)|lookup) takes [\d.]+ µs"),
    Complaint("the same where the batch cannot be empty", sweep_of("pooled_adapters", EAGER_AND),
              row_of("pooled_adapters", "compile"), 3, "pytorch/pytorch#191753",
              ("guards", "more_overhead"), r"(guards\)|lookup) takes [\d.]+ µs"),
    Complaint("evaluation with autograd left on",
              sweep_of("chain", "mode=eager,inference_mode,no_grad"), row_of("chain", "eager"), 8,
              "pytorch/pytorch#110666", ("grad_left_on",),
              r"autograd is on.* the same call is [\d.]+× as fast"),
    Complaint("a first call of seconds, cold and with a warm cache", CACHES,
              row_of("norms", "compile", 'compile_cache == "cold"'), 11, "pytorch/pytorch#172547",
              ("first_call",),
              r"takes [\d.]+ s, as long as .*: \w+ [\d.]+ m?s, "
              r".*with a warm compiler cache [\d.]+"),
    Complaint("the memory of compiling on a CPU", PERCEPTRON, row_of("perceptron", "compile"), 12,
              "pytorch/pytorch#167199", ("memory_of_compiling",),
              r"takes [\d.]+ MiB more memory, in eager [\d.]+ [KM]iB"),
    Complaint("slow, with one thread of two", THREADS,
              row_of("perceptron", "eager", "threads == 1"), 14,
              "triton-inference-server/server#6896", ("threads",),
              r"with 1 thread a call takes [\d.]+ ms .*, with 2 threads [\d.]+ ms"),
)  # fmt: skip
"""In the order of their numbers. GPU complaints are in `recorded`, one of a CPU in `ELSEWHERE`."""

_COSTS = ("first_call", "memory_of_compiling")
_DISPATCH = ("no_autograd", "less_overhead", "bound_by_overhead")
_PRODUCTS = ("unchanged_kernels", "near_floor")

OTHERS = (
    Other("one large product, inference_mode", sweep_of("large_product", EAGER_AND),
          row_of("large_product", "inference_mode"), _PRODUCTS,
          "a call is one product of 268 MFLOP"),
    Other("two large products, inference_mode, without a profile", PERCEPTRON,
          row_of("perceptron", "inference_mode"), (),
          "nothing that this mode changes; what remains is not profiled"),
    Other("two large products, eager with 2 threads", THREADS,
          row_of("perceptron", "eager", "threads == 2"), (),
          "the faster number of threads; the baseline itself"),
    Other("two tiny operators, inference_mode, beside a row with 2 threads",
          sweep_of("tiny", "mode=inference_mode threads=1,2"),
          row_of("tiny", "inference_mode", "threads == 1"), _DISPATCH,
          "all is overhead, a part of it autograd's; a second thread has nothing to do"),
    Other("a chain whose parameters are frozen, no_grad", sweep_of("frozen_chain", "mode=no_grad"),
          row_of("frozen_chain", "no_grad"), ("bound_by_overhead",),
          "nothing requires a gradient, so no_grad changes nothing"),
    Other("layer norms, compile with a warm cache", CACHES,
          row_of("norms", "compile", 'compile_cache == "warm"'), (*_COSTS, "guards"),
          "faster by fusion, against which no uncompiled mode was measured; guards remain"),
    Other("one pass over memory, compile", sweep_of("bandwidth", EAGER_AND),
          row_of("bandwidth", "compile"), ("near_floor", *_COSTS),
          "one multiplication of 32 MiB: bandwidth is the limit, and its kernel is generated"),
    Other("pointwise operators under amp", sweep_of("activations", "mode=amp"),
          row_of("activations", "amp"), ("near_floor",),
          "autocast casts none of these operators, and there is no product"),
    Other("a sort, compile", sweep_of("sorting", EAGER_AND), row_of("sorting", "compile"),
          ("unchanged_kernels", "fallbacks", *_COSTS),
          "Inductor has no code for a sort on a CPU, which is nearly all of a call"),
    Other("a graph break, compile", sweep_of("broken", f"{EAGER_AND} model.fullgraph=false"),
          row_of("broken", "compile"),
          ("graph_breaks", "more_overhead", "bound_by_overhead", "guards", "unchanged_kernels",
           *_COSTS),
          "a graph break between two small products, so two lookups in each call"),
    Other("a Python loop, compile", sweep_of("counting", EAGER_AND), row_of("counting", "compile"),
          ("less_overhead", "more_overhead", "compiled_code", "guards", *_COSTS),
          "compiled code has the loop's result, but guards and Python of its own"),
    Other("two hundred adapters, inference_mode", GUARDED, row_of("adapters", "inference_mode"),
          _DISPATCH, "a Python loop and one product of 64 × 64; nothing is compiled, so no guards"),
    Other("a mode of CUDA graphs on a CPU", sweep_of("counting", "mode=reduce-overhead"),
          row_of("counting", "reduce-overhead"), ("not_graphed",), "CUDA graphs need a GPU"),
)  # fmt: skip

ELSEWHERE = (
    Complaint("autocast on a CPU is many times slower",
              sweep_of("product", "mode=inference_mode,amp"), row_of("product", "amp"), 10,
              "pytorch/pytorch#118499", ("no_native_dtype",),
              NATIVE + r", and .*( of fp32's rate|takes [\d.]+ m?s in bf16)"),
)  # fmt: skip
"""Of a CPU without bf16 instructions: rows of such a machine are kept."""
