"""The steps, in order of weight, as one table."""

from __future__ import annotations

from dataclasses import dataclass

from tests.gpu.studies import STUDIES

FOLDER = "{folder}"
"""In a command, the folder that everything is written to."""

RESERVE_S = 10.0
"""Kept at the end of a call, for the invariants and the page."""


@dataclass(frozen=True)
class Step:
    """A command that shows something, and how long it may take.

    `expected_s` is what it takes by the kept rows, or by estimate; None: what its study's cases
    took there (`tests.gpu.expected`). A step of which less than that is left is not started.
    """

    number: int
    name: str
    limit_s: float
    expected_s: float | None
    module: str  # that python -m runs
    words: tuple[str, ...] = ()
    smoke: tuple[str, ...] | None = None  # words on the pretended GPU; None: the same
    smoke_limit_s: float = 60.0
    goes_on: bool = False  # after a timeout, started again, it repeats nothing that it has done
    last: bool = False  # runs at the end of every call, over what there is

    def command(self, folder: str, pretended: bool) -> list[str]:
        """The words after the interpreter."""
        words = self.smoke if pretended and self.smoke is not None else self.words
        return ["-m", self.module, *(word.replace(FOLDER, folder) for word in words)]

    def limit(self, pretended: bool) -> float:
        """Its time limit in seconds."""
        return self.smoke_limit_s if pretended else self.limit_s


TEST_LIMIT_S = 45.0
TESTS_S = {
    "test_cuda": 45.0,
    "test_cuda_training": 45.0,
    "test_cuda_memory": 12.0,
    "test_cuda_profiler": 10.0,
    "test_cuda_passes": 12.0,
    "test_cuda_code": 15.0,
    "test_tf32": 8.0,
    "test_cuda_measure": 10.0,
    "test_cuda_claims": 40.0,
}
"""File -> seconds, by estimate from the number of its tests and of what they compile: no run that
was kept says how long they take."""

FURTHER_TESTS_S = {"test_cuda_kernels": 40.0, "test_cuda_starts": 100.0, "test_cuda_steps": 25.0}
"""Those that are further steps."""

SLOW_CLAIMS = ("layernorm-kernels", "strided-kernel-slow", "profiler-launch-bound")
SLOWER_CLAIMS = ("reduce-overhead-graphs", "autotune-best")


def _tests(name: str, expected_s: float, further: bool) -> Step:
    words = (f"tests/cuda/{name}.py", FOLDER)
    return Step(
        9 if further else 1, name.replace("_", "-"), 120.0 if further else TEST_LIMIT_S,
        expected_s, "tests.gpu.cuda_tests", words, goes_on=True,
    )  # fmt: skip


def _selfcheck(name: str, limit_s: float, expected_s: float, checks: str) -> Step:
    words = ("--device", "cuda", "--only", checks)
    return Step(
        2, f"selfcheck-{name}", limit_s, expected_s, "bench.selfcheck", words, smoke_limit_s=12.0
    )


def _claims(name: str, limit_s: float, expected_s: float, *chosen: str, number: int = 6) -> Step:
    words = (FOLDER, *chosen)
    return Step(
        number, f"claims-{name}", limit_s, expected_s, "tests.gpu.claims", words,
        smoke=(FOLDER, "reshape-copies") if name == "quick" else words,
    )  # fmt: skip


def _study(name: str, further: bool) -> Step:
    return Step(
        9 if further else 5, f"study-{name}", 600.0 if further else 120.0, None,
        "tests.gpu.study", (name, FOLDER), smoke_limit_s=150.0, goes_on=True,
    )  # fmt: skip


STEPS: tuple[Step, ...] = (
    *(_tests(*file, further=False) for file in TESTS_S.items()),
    _selfcheck("clocks", 30.0, 15.0, "delays,spins,separation"),
    _selfcheck("equal", 90.0, 60.0, "equal"),
    Step(
        3, "power", 45.0, 30.0, "tests.gpu.power", (FOLDER,), smoke=(FOLDER, "--seconds-share=0.02")
    ),
    Step(4, "graphs", 40.0, 26.0, "tests.gpu.graphs", (FOLDER,)),
    *(_study(study.name, False) for study in STUDIES if not study.further),
    _claims("quick", 45.0, 30.0),
    Step(7, "pasted-code", 90.0, 36.0, "tests.gpu.pasted", (FOLDER,)),
    *(_study(study.name, True) for study in STUDIES if study.further),
    *(_tests(*file, further=True) for file in FURTHER_TESTS_S.items()),
    _claims("slow", 120.0, 90.0, *SLOW_CLAIMS, number=9),
    _claims("slower", 600.0, 240.0, *SLOWER_CLAIMS, number=9),
    Step(8, "invariants", 20.0, 6.0, "tests.gpu.invariants", (FOLDER,), last=True),
)
"""Number 9 are further steps, for a larger budget: in 11 minutes on an H100 they do not run."""


def named(names: tuple[str, ...]) -> tuple[Step, ...]:
    """Returns the steps of these names, in the order of STEPS; raises KeyError for another name."""
    known = {step.name for step in STEPS}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return tuple(step for step in STEPS if step.name in names)
