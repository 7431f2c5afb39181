"""Columns of the first calls: what was compiled, how long it took, and the code it made."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.columns.column import nullable


@dataclass(frozen=True)
class Regions:
    """Blocks that are compiled one by one (mode.regions=blocks); null if the whole model is."""

    regions: int | None = nullable("repeated blocks of the model")
    regions_called: int | None = nullable("those that a call runs as compiled code")
    region_names: str | None = nullable("their names in the model, JSON")


@dataclass(frozen=True)
class Compilations:
    """What torch recorded of the compilations of the first call; null if there was none."""

    compiler_cache_hits: int | None = nullable(
        "graphs whose code came from the compiler's cache on disk"
    )
    compiler_cache_misses: int | None = nullable("graphs whose code was generated")
    compile_phases_s: str | None = nullable(
        "time in each phase alone, JSON: dynamo, aot, inductor, kernels, autotune"
    )
    recompile_reasons: str | None = nullable("torch's reasons to compile the same code again, JSON")
    cudagraph_skip_reasons: str | None = nullable(
        "torch's reasons to run compiled code without a CUDA graph, JSON"
    )


@dataclass(frozen=True)
class Packaged:
    """A package that was built ahead of time, in a process of its own; null for other modes."""

    package_export_s: float | None = nullable("time to export the model (torch.export)")
    package_build_s: float | None = nullable(
        "time to compile and package what was exported; with compile_cache=warm with what earlier "
        "builds left in the user's caches"
    )
    package_load_s: float | None = nullable("time to load the package; part of first_call_s")
    package_bytes: int | None = nullable("size of the package's file, which has the weights, too")


@dataclass(frozen=True)
class FirstPass:
    """The first pass over calls of different sizes; null if calls are equal (calls=repeat)."""

    first_pass_s: str | None = nullable("JSON: time of each call of the first pass, in order")
    compiled_calls: str | None = nullable(
        "JSON: the calls in which torch compiled, each with its number from 1, its time in seconds "
        "and torch's reason to compile again"
    )
    gave_up_at_call: int | None = nullable(
        "the call at which torch reached its limit of compilations; null without one"
    )
    eager_calls: str | None = nullable(
        "JSON: numbers of the calls of a later pass that run in eager since then; null without"
    )


@dataclass(frozen=True)
class GeneratedCode:
    """Code that the compiler generated in the case's first call; null if it compiled nothing.

    Numbers are null, too, where blocks share code (mode.regions=blocks).
    """

    generated_kernels: int | None = nullable("calls of generated kernels in a call of the case")
    extern_calls: int | None = nullable("calls from generated code to operators and libraries")
    fallback_kernels: str | None = nullable(
        "operators among these that go through torch's dispatcher, JSON"
    )
    own_kernels: int | None = nullable("calls of the model's own Triton kernels in that code")
    own_kernel_names: str | None = nullable("their names, JSON")
    bytes_accessed: int | None = nullable(
        "bytes that all of these read and write, as the compiler counts"
    )


@dataclass(frozen=True)
class CompiledCode:
    """What identifies that code, and the weights that it holds; null if nothing was compiled.

    Those of weights are null, too, unless mode.freezing is true of the case or its baseline.
    """

    code_hash: str | None = nullable(
        "hash of Inductor's code without comments and folders: equal for equal code"
    )
    frozen_weights: int | None = nullable("parameters and buffers that became constants of it")
    packed_weights: int | None = nullable(
        "weights that Inductor stored anew in the layout of a library's kernels"
    )
