"""The steps, most telling first: an instrument that is proven, then what it measures."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.proof.passed_tests import last
from tests.proof.step import FOLDER, PYTHON, Command, Step

MODULE = (PYTHON, "-m")
GPU = ("--device", "cuda", "--results-dir", FOLDER)
REHEARSED = {"budget": "smoke", "compile_cache": "warm", "trace_max_mb": "0"}
PASSED = "passed.jsonl"

MODES = "reduce-overhead,cuda-graph,compile-cuda-graph,compile,amp,inference_mode,eager"
BATCHES = {"transformer": {"small": 1, "large": 64}, "mlp": {"small": 1, "large": 4096}}


def tests(*paths: str, only: str) -> Command:
    """Tests that have not passed yet, by the marker `only`."""
    words = ("pytest", "-q", "-p", "tests.proof.passed", f"--passed={FOLDER}/{PASSED}")
    return Command((*MODULE, *words, "-p", "no:cacheprovider", "-m", only, *paths))


def sweep(study: str, *settings: str, **rehearsed: str) -> Command:
    """A sweep, which measures what its study lacks; `rehearsed` settings take others' places."""
    given = dict(setting.split("=", 1) for setting in settings)
    quick = {"device": "cuda", "budget": "quick", "timeout_s": "400", **given}
    small = {**quick, **REHEARSED, **{key.replace("__", "."): v for key, v in rehearsed.items()}}
    start = (PYTHON, "run.py", "-m", f"results_dir={FOLDER}", f"study={study}")
    first, second = ((*start, *map("=".join, each.items())) for each in (quick, small))
    return Command(first, second)


def tool(module: str, *words: str, rehearsed: tuple[str, ...] = ()) -> Command:
    """A tool on the GPU; left out of a rehearsal without `rehearsed` words."""
    start = (*MODULE, module)
    small = (*start, *GPU, *rehearsed) if rehearsed else ()
    return Command((*start, *GPU, *words), small, judges=True)


def must(model: str, batch: int) -> tuple[Command, ...]:
    """The modes of a model at one batch, against eager in bf16; amp against eager in fp32."""
    of = (f"model={model}", "shape=small", f"shape.batch={batch}", "order=given")
    few = {"shape__batch": str(min(batch, 2))}
    some = "amp,cuda-graph" if model == "transformer" else "amp,cuda-graph,reduce-overhead"
    return (
        sweep("main", *of, "dtype=bf16", f"mode={MODES}", mode=some, **few),
        sweep("main", *of, "dtype=fp32", "mode=eager", **few),
    )


def rows(study: str, folder: Path) -> str:
    """How many rows a study has."""
    return f"{sum(1 for _ in (folder / study / 'runs').glob('*.parquet'))} rows in {study}"


def passed(paths: tuple[str, ...], folder: Path) -> str:
    """How many tests of these files have passed, by what the last call said of each."""
    mine = [outcome for test, outcome in last(folder / PASSED).items() if test.startswith(paths)]
    counts = {each: mine.count(each) for each in ("passed", "failed", "skipped")}
    return ", ".join(f"{count} {each}" for each, count in counts.items() if count) or "no test"


def pages(tool: str, folder: Path) -> str:
    """How many pages a tool has written."""
    return f"{sum(1 for _ in (folder / tool).glob('*.md'))} pages in {tool}"


def nothing_measured(folder: Path) -> str | None:
    """What is missing before there is anything to keep."""
    return None if any((folder / "main" / "runs").glob("*.parquet")) else "nothing is measured yet"


def of_tests(
    name: str, title: str, *paths: str, only: str = "cuda", needs_gpu: bool = True
) -> Step:
    """A step of one command for each file, as an error of CUDA ends all tests of a process."""
    commands = tuple(tests(path, only=only) for path in paths)
    return Step(name, title, commands, needs_gpu=needs_gpu, reached=partial(passed, paths))


def of_sweeps(name: str, title: str, study: str, *commands: Command, minutes: float = 9) -> Step:
    """A step of sweeps into one study."""
    return Step(name, title, commands, minutes, reached=partial(rows, study))


TIMED_CLAIMS = (
    "dispatch-cost", "strided-kernel-slow", "profiler-launch-bound", "reduce-overhead-graphs",
    "compile-speedup", "autotune-best",
)  # fmt: skip
"""Each takes minutes and is a command of its own, so that a stopped step repeats none that ended.

Named here because the list of claims imports torch, which `--list` and `--wheels` do without."""

DISPATCH = ("memory=false", "profile=false", "order=given", "dtype=bf16")
FACTS = "tests.proof.facts"

STEPS: tuple[Step, ...] = (
    Step(
        "packages", "packages, GPU and driver", (Command((*MODULE, "tests.proof.packages")),),
        minutes=1, needs_gpu=False,
    ),
    of_tests(
        "pretended", "tests on a pretended GPU",
        "tests/bench/devices", "tests/bench/steps/training/test_captured.py",
        "tests/bench/tools/claims/test_allocator_claims.py",
        only="not cuda and not slow", needs_gpu=False,
    ),
    of_tests(
        "modes", "tests: modes, clocks, passes, profiler, memory",
        "tests/cuda/test_cuda.py", "tests/cuda/test_cuda_passes.py",
        "tests/cuda/test_cuda_profiler.py", "tests/cuda/test_cuda_memory.py",
    ),
    of_tests("training-tests", "tests: training", "tests/cuda/test_cuda_training.py"),
    of_tests(
        "tools", "tests: self-check, peers, claims, measure",
        "tests/cuda/test_cuda_selfcheck.py", "tests/cuda/test_cuda_peers.py",
        "tests/cuda/test_cuda_claims.py", "tests/cuda/test_cuda_measure.py",
        only="cuda and not slow",  # slow claims are a later step
    ),
    Step(
        "facts", "facts: gate, device time, clocks, empty batch, processes",
        tuple(
            tool(FACTS, "--only", group, rehearsed=("--only", group, "--small"))
            for group in ("gate", "clocks,empty-batch", "processes")
        ),
        minutes=5, reached=partial(pages, "facts"),
    ),
    *(
        of_sweeps(f"{model}-{size}", f"modes: {model}, {size} batch", "main", *must(model, batch))
        for model, batches in BATCHES.items()
        for size, batch in batches.items()
    ),
    of_sweeps(
        "autotune", "modes: max-autotune of a transformer", "main",
        sweep(
            "main", "model=transformer", "shape=small", "shape.batch=1", "dtype=bf16",
            "mode=max-autotune", "timeout_s=500", model="pointwise", mode="eager",
            shape__batch="2",
        ),
    ),
    Step(
        "selfcheck", "self-check: planted times, separation, equal steps, +2 %",
        (
            tool(
                "bench.selfcheck", "--only", "clock,spins,separation,triton",
                rehearsed=("--only", "spins,separation"),
            ),
            tool("bench.selfcheck", "--only", "torch-timer"),
            tool("bench.selfcheck", "--only", "equal"),
            tool("bench.selfcheck", "--only", "planted"),
        ),
        reached=partial(pages, "selfcheck"),
    ),
    Step(
        "peers", "other harnesses on the same steps",
        (
            tool(
                "bench.peers", "--trials", "0",
                rehearsed=("--trials", "0", "--alternations", "1", "--only", "modescope"),
            ),
            # Pyperf's way starts ten processes for a comparison, each with CUDA: 2 s or more.
            tool("bench.peers", "--trials", "3", "--alternations", "0"),
        ),
        reached=partial(pages, "peers"),
    ),
    Step(
        "torch-facts", "facts about torch on CUDA",
        tuple(
            tool(FACTS, "--only", group)
            for group in ("graph-trees", "captures", "allocator", "autocast", "profiler")
        ),
        minutes=4, reached=partial(pages, "facts"),
    ),
    Step(
        "claims", "statements about PyTorch",
        (
            tool("bench.claims", "--without", "timed", rehearsed=("view-contiguous",)),
            *(tool("bench.claims", claim) for claim in TIMED_CLAIMS),
        ),
        reached=partial(pages, "claims"),
    ),
    of_sweeps(
        "dispatch", "dispatch: an MLP at batch 1 to 4096", "dispatch",
        sweep(
            "dispatch", *DISPATCH, "model=mlp", "shape=small",
            "shape.batch=1,4,16,64,256,1024,4096",
            "mode=eager,inference_mode,compile,reduce-overhead,cuda-graph",
            mode="eager,cuda-graph", shape__batch="1,4",
        ),
    ),
    of_sweeps(
        "fusion", "fusion", "fusion",
        sweep(
            "fusion", "experiment=fusion", "dtype=bf16",
            model="pointwise", mode="eager,cuda-graph", shape="small", shape__scale="4",
        ),
    ),
    of_sweeps(
        "memory", "memory of each mode", "memory",
        sweep("memory", "experiment=memory", model="mlp", mode="eager", shape__batch="1"),
    ),
    of_sweeps(
        "training", "a step of training", "training",
        sweep(
            "training", "experiment=training", "dtype=auto",
            "mode=eager,amp,compile,reduce-overhead,cuda-graph,compile-cuda-graph",
            model="mlp", mode="eager,cuda-graph", shape="small",
        ),
    ),
    of_sweeps(
        "precisions", "fp16 and tf32", "main",
        sweep(
            "main", "model=transformer,mlp", "shape=small", "shape.batch=64", "dtype=fp16,tf32",
            "mode=eager,compile,reduce-overhead", model="mlp", mode="eager", dtype="tf32",
            shape__batch="2",
        ),
    ),
    Step(
        "reference", "what is kept: at most 5 MB of rows, three traces",
        (Command((*MODULE, "tests.proof.reference", FOLDER)),),
        minutes=2, needs_gpu=False, lacks=nothing_measured, repeats=True,
    ),
    Step(
        "report", "report of it",
        (Command((*MODULE, "analysis.report", f"{FOLDER}/reference")),),
        minutes=3, needs_gpu=False, lacks=nothing_measured, repeats=True,
    ),
)  # fmt: skip
