"""Situations with a known cause, and cases of which is known what may be named.

A complaint is what somebody reported about PyTorch, rebuilt as a small model: its cause has to be
named first. The other cases have no such defect: a cause that is not in `true` is not there. Both
were written down before they were measured.
"""

from __future__ import annotations

from dataclasses import dataclass

MODELS = "tests.situations.models"
NATIVE = "this CPU has no bf16 instructions"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A row, and the sweep that measures it and what it is compared with."""

    title: str
    sweep: str  # arguments of `python run.py -m`
    row: str  # an expression for --where that one row matches


@dataclass(frozen=True, kw_only=True)
class Complaint(Measured):
    """A situation that somebody complained of."""

    number: int
    thread: str  # repository and number of the thread
    first: tuple[str, ...]  # codes, one of which has to be named first
    says: str  # a regular expression for the first sentence: the cause in words, with figures


@dataclass(frozen=True, kw_only=True)
class Other(Measured):
    """A case without the defect of any complaint."""

    true: tuple[str, ...]  # codes that may be named
    because: str  # what the model and the mode are, from which it follows


def sweep_of(name: str, settings: str) -> str:
    """The arguments that measure a model of `models`."""
    return f"model=custom model.target={MODELS}:{name} {settings}"


def row_of(name: str, mode: str, more: str = "") -> str:
    """The expression for a row of a model of `models`."""
    return built_in(f"custom:{MODELS}:{name}", mode, more)


def built_in(model: str, mode: str, more: str = "") -> str:
    """The expression for a row of a model that comes with modescope."""
    return f'model == "{model}" and mode == "{mode}"{f" and {more}" if more else ""}'


EAGER_AND = "mode=inference_mode,compile"
TINY = sweep_of("tiny", EAGER_AND)
PERCEPTRON = sweep_of("perceptron", f"{EAGER_AND} profile=false")
THREADS = sweep_of("perceptron", "mode=eager threads=1,2")
GUARDED = sweep_of("adapters", EAGER_AND)
CACHES = sweep_of("norms", "mode=compile compile_cache=cold,warm")
MLP = "model=mlp mode=inference_mode,amp,compile"
TRANSFORMER = "model=transformer mode=inference_mode,no_grad,compile"
SMALL = "model=pointwise,embedding mode=inference_mode,compile shape=small"
UNCOMPILED = "model=decode,resnet,lstm mode=inference_mode shape=small"

COMPLAINTS = (
    Complaint(
        number=1,
        title="compiled, and slower: an overhead in every call",
        thread="ScalingIntelligence/KernelBench#68",
        sweep=TINY,
        row=row_of("tiny", "compile", "threads == 1"),
        first=("more_overhead",),
        says=r"guards, [\d.]+ µs\).* add [\d.]+ µs to a call",
    ),
    Complaint(
        number=2,
        title="dozens of times slower: one call timed, compiling included",
        thread="pytorch/pytorch#121793",
        sweep=sweep_of("activations", "mode=compile"),
        row=row_of("activations", "compile"),
        first=("first_call",),
        says=r"first call takes [\d.]+ s, as long as [\d,]+ calls of the baseline: ",
    ),
    Complaint(
        number=2,
        title="the same where compiling gains nothing afterwards",
        thread="pytorch/pytorch#121793",
        sweep=sweep_of("layer", EAGER_AND),
        row=row_of("layer", "compile"),
        first=("unchanged_kernels",),
        says=r"after a first call of [\d.]+ s, as long as [\d,]+ calls of eager: \d+ % of a call",
    ),
    Complaint(
        number=3,
        title="the cache lookup takes longer than the model",
        thread="pytorch/pytorch#191753",
        sweep=GUARDED,
        row=row_of("adapters", "compile"),
        first=("guards", "more_overhead"),
        says=r"guards\) takes [\d.]+ µs|guards, [\d.]+ µs\)",
    ),
    Complaint(
        number=3,
        title="the same where the batch cannot be empty",
        thread="pytorch/pytorch#191753",
        sweep=sweep_of("pooled_adapters", EAGER_AND),
        row=row_of("pooled_adapters", "compile"),
        first=("guards", "more_overhead"),
        says=r"guards\) takes [\d.]+ µs|guards, [\d.]+ µs\)",
    ),
    Complaint(
        number=8,
        title="evaluation with autograd left on",
        thread="pytorch/pytorch#110666",
        sweep=sweep_of("chain", "mode=eager,inference_mode,no_grad"),
        row=row_of("chain", "eager"),
        first=("grad_left_on",),
        says=r"autograd is on.* the same call is [\d.]+× as fast",
    ),
    Complaint(
        number=11,
        title="a first call of seconds, cold and with a warm cache",
        thread="pytorch/pytorch#172547",
        sweep=CACHES,
        row=row_of("norms", "compile", 'compile_cache == "cold"'),
        first=("first_call",),
        says=r"takes [\d.]+ s, as long as .*: \w+ [\d.]+ m?s, .*with a warm compiler cache [\d.]+",
    ),
    Complaint(
        number=12,
        title="the memory of compiling on a CPU",
        thread="pytorch/pytorch#167199",
        sweep=PERCEPTRON,
        row=row_of("perceptron", "compile"),
        first=("memory_of_compiling",),
        says=r"takes [\d.]+ MiB more memory, in eager [\d.]+ [KM]iB",
    ),
    Complaint(
        number=14,
        title="slow, with one thread of two",
        thread="triton-inference-server/server#6896",
        sweep=THREADS,
        row=row_of("perceptron", "eager", "threads == 1"),
        first=("threads",),
        says=r"with 1 thread a call takes [\d.]+ ms .*, with 2 threads [\d.]+ ms",
    ),
)
"""In the order of their numbers. Those of a GPU are in `recorded`, one of a CPU in `ELSEWHERE`."""

_COSTS = ("first_call", "memory_of_compiling")
_DISPATCH = ("no_autograd", "less_overhead", "bound_by_overhead")
_PRODUCTS = ("unchanged_kernels", "near_floor", "idle_cores")

OTHERS = (
    Other(
        title="MLP, inference_mode",
        sweep=MLP,
        row=built_in("mlp", "inference_mode"),
        true=_PRODUCTS,
        because="four products of 512 × 512 are nearly all of a call, and no mode changes them",
    ),
    Other(
        title="MLP, compile",
        sweep=MLP,
        row=built_in("mlp", "compile"),
        true=(*_PRODUCTS, *_COSTS, "more_overhead", "guards"),
        because="the same products, and guards and Python in each call; compiling takes seconds",
    ),
    Other(
        title="MLP, amp",
        sweep=MLP,
        row=built_in("mlp", "amp"),
        true=("slower_products", "casts"),
        because="bf16 products are other kernels, and autocast casts the weights in every call",
    ),
    Other(
        title="transformer, inference_mode",
        sweep=TRANSFORMER,
        row=built_in("transformer", "inference_mode"),
        true=(*_PRODUCTS, "no_autograd", "less_overhead"),
        because="products and attention are most of a call; autograd is off",
    ),
    Other(
        title="transformer, no_grad",
        sweep=TRANSFORMER,
        row=built_in("transformer", "no_grad"),
        true=(*_PRODUCTS, "no_autograd", "less_overhead"),
        because="the same kernels; autograd is off",
    ),
    Other(
        title="transformer, compile",
        sweep=TRANSFORMER,
        row=built_in("transformer", "compile"),
        true=(
            *_PRODUCTS,
            *_COSTS,
            "no_autograd",
            "less_overhead",
            "compiled_code",
            "fused_kernels",
        ),
        because="products remain; layer norms, GELU and residuals are fused; autograd is off",
    ),
    Other(
        title="pointwise, compile",
        sweep=SMALL,
        row=built_in("pointwise", "compile"),
        true=(*_COSTS, "no_autograd", "less_overhead", "compiled_code", "fused_kernels", "guards"),
        because="16 operators on 16 numbers become one kernel, whose guards remain",
    ),
    Other(
        title="embedding, compile",
        sweep=SMALL,
        row=built_in("embedding", "compile"),
        true=(
            *_COSTS,
            "no_autograd",
            "less_overhead",
            "compiled_code",
            "fused_kernels",
            "guards",
            "fallbacks",
        ),
        because="small sums of embeddings, which Inductor leaves to eager (make_fallback of "
        "aten._embedding_bag), and guards",
    ),
    Other(
        title="decode step, inference_mode",
        sweep=UNCOMPILED,
        row=built_in("decode", "inference_mode"),
        true=_DISPATCH,
        because="small operators for one token, whose dispatch takes most of a call",
    ),
    Other(
        title="ResNet, inference_mode",
        sweep=UNCOMPILED,
        row=built_in("resnet", "inference_mode"),
        true=(*_PRODUCTS, *_DISPATCH),
        because="convolutions of 8 channels, and dispatch of some fifty operators",
    ),
    Other(
        title="LSTM, inference_mode",
        sweep=UNCOMPILED,
        row=built_in("lstm", "inference_mode"),
        true=(*_PRODUCTS, *_DISPATCH),
        because="many small products in one operator, and what autograd would save of each",
    ),
    Other(
        title="one large product, inference_mode",
        sweep=sweep_of("large_product", EAGER_AND),
        row=row_of("large_product", "inference_mode"),
        true=_PRODUCTS,
        because="a call is one product of 268 MFLOP",
    ),
    Other(
        title="two large products, inference_mode, without a profile",
        sweep=PERCEPTRON,
        row=row_of("perceptron", "inference_mode"),
        true=(),
        because="nothing that this mode changes; what remains is not profiled",
    ),
    Other(
        title="two large products, eager with 2 threads",
        sweep=THREADS,
        row=row_of("perceptron", "eager", "threads == 2"),
        true=(),
        because="the faster number of threads; the baseline itself",
    ),
    Other(
        title="two tiny operators, inference_mode, beside a row with 2 threads",
        sweep=sweep_of("tiny", "mode=inference_mode threads=1,2"),
        row=row_of("tiny", "inference_mode", "threads == 1"),
        true=_DISPATCH,
        because="all is overhead, a part of it autograd's; a second thread has nothing to do",
    ),
    Other(
        title="a chain whose parameters are frozen, no_grad",
        sweep=sweep_of("frozen_chain", "mode=no_grad"),
        row=row_of("frozen_chain", "no_grad"),
        true=("bound_by_overhead",),
        because="nothing requires a gradient, so no_grad changes nothing",
    ),
    Other(
        title="layer norms, compile with a warm cache",
        sweep=CACHES,
        row=row_of("norms", "compile", 'compile_cache == "warm"'),
        true=(*_COSTS, "guards"),
        because="faster by fusion, against which no uncompiled mode was measured; guards remain",
    ),
    Other(
        title="one pass over memory, compile",
        sweep=sweep_of("bandwidth", EAGER_AND),
        row=row_of("bandwidth", "compile"),
        true=("near_floor", *_COSTS),
        because="one multiplication of 32 MiB: bandwidth is the limit, and its kernel is generated",
    ),
    Other(
        title="pointwise operators under amp",
        sweep=sweep_of("activations", "mode=amp"),
        row=row_of("activations", "amp"),
        true=("near_floor",),
        because="autocast casts none of these operators, and there is no product",
    ),
    Other(
        title="a sort, compile",
        sweep=sweep_of("sorting", EAGER_AND),
        row=row_of("sorting", "compile"),
        true=("unchanged_kernels", "fallbacks", *_COSTS),
        because="Inductor has no code for a sort on a CPU, which is nearly all of a call",
    ),
    Other(
        title="a graph break, compile",
        sweep=sweep_of("broken", f"{EAGER_AND} model.fullgraph=false"),
        row=row_of("broken", "compile"),
        true=(
            "graph_breaks",
            "more_overhead",
            "bound_by_overhead",
            "guards",
            "unchanged_kernels",
            *_COSTS,
        ),
        because="a graph break between two small products, so two lookups in each call",
    ),
    Other(
        title="a Python loop, compile",
        sweep=sweep_of("counting", EAGER_AND),
        row=row_of("counting", "compile"),
        true=("less_overhead", "more_overhead", "compiled_code", "guards", *_COSTS),
        because="compiled code has the loop's result, but guards and Python of its own",
    ),
    Other(
        title="two hundred adapters, inference_mode",
        sweep=GUARDED,
        row=row_of("adapters", "inference_mode"),
        true=_DISPATCH,
        because="a Python loop and one product of 64 × 64; nothing is compiled, so no guards",
    ),
    Other(
        title="a mode of CUDA graphs on a CPU",
        sweep=sweep_of("counting", "mode=reduce-overhead"),
        row=row_of("counting", "reduce-overhead"),
        true=("not_graphed",),
        because="CUDA graphs need a GPU",
    ),
)

ELSEWHERE: tuple[Measured, ...] = (
    Complaint(
        number=10,
        title="autocast on a CPU is many times slower",
        thread="pytorch/pytorch#118499",
        sweep=sweep_of("product", "mode=inference_mode,amp"),
        row=row_of("product", "amp"),
        first=("no_native_dtype",),
        says=NATIVE + r", and .*( of fp32's rate|takes [\d.]+ m?s in bf16)",
    ),
    Other(
        title="MLP, amp without bf16 instructions",
        sweep=MLP,
        row=built_in("mlp", "amp"),
        true=("no_native_dtype", "casts"),
        because=f"{NATIVE}, and autocast casts the weights in every call",
    ),
)
"""Of a CPU without bf16 instructions: rows of such a machine are kept."""
