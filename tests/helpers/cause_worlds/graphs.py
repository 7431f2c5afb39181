"""Worlds of `analysis.causes.graphs`."""

from __future__ import annotations

from tests.helpers.causes import World, alone, first, kernels, last, profiled
from tests.helpers.rows import ends
from tests.helpers.studies import cuda_clocks, record

PRODUCT = ("nvjet_sm90_tst_128x64", 4, 50e-6)
NO_GPU = "CUDA graphs need a GPU: on a CPU this runs without CUDA graphs"
NO_CHOICE = "there was nothing to choose"
RESIZED = "[\"tensor 'x' size mismatch at index 1. expected 128, actual 192\"]"
SKIPPED = '["skipping cudagraphs due to mutated inputs (1 instances)"]'

WARNED = '["CUDAGraph supports dynamic shapes ... We have observed 9 distinct sizes."]'

COPY = "void multi_tensor_apply_kernel<UnaryOpFunctor<float, 2>, Copy<float, float> >"
FOR_STATES = "void multi_tensor_apply_kernel<BinaryOpListAlphaFunctor<float> >"

WORLDS = {
    "not_graphed": World(
        [record("reduce-overhead", speedup=1.0, in_effect=False, in_effect_note=NO_GPU)],
        [NO_GPU],
        silent={
            "in effect": last(in_effect=True),
            "for another reason": last(in_effect_note=NO_CHOICE),
            "a mode that records no graphs": last(compile_mode="default"),
        },
        still={"torch's own reason": last(in_effect_note=None, cudagraph_skip_reasons=SKIPPED)},
    ),
    "not_in_effect": World(
        [record("max-autotune-no-cudagraphs", in_effect=False, in_effect_note=NO_CHOICE)],
        [NO_CHOICE],
        silent={
            "in effect": last(in_effect=True),
            "no reason": last(in_effect_note=None),
            "for want of graphs": last(compile_mode="max-autotune", in_effect_note=NO_GPU),
        },
    ),
    "partly_graphed": World(
        [record("reduce-overhead", speedup=1.0, cudagraph_skip_reasons=SKIPPED)],
        ["skipping cudagraphs due to mutated inputs (1 instances)"],
        silent={
            "nothing was left out": last(cudagraph_skip_reasons="[]"),
            "all of it was left out": last(in_effect=False),
            "a mode that records no graphs": last(compile_mode="default"),
        },
    ),
    "graph_per_size": World(
        [
            record("reduce-overhead", 100e-6, 0.8, recompile_reasons=RESIZED,
                   **cuda_clocks(95e-6, 40e-6))
        ],
        ["several", "tensor 'x' size mismatch at index 1. expected 128, actual 192"],
        share=0.6,
        silent={
            "compiled again for another reason": last(recompile_reasons='["a global changed"]'),
            "a mode that records no graphs": last(compile_mode="default"),
            "no graph was launched": last(in_effect=False),
            "a CPU": last(device="cpu"),
        },
        still={"torch warned of it": last(recompile_reasons="[]", torch_warnings=WARNED)},
    ),
    "input_copies": World(
        [
            record("inference_mode", 100e-6, 1.0, **cuda_clocks(40e-6, 50e-6)),
            record("reduce-overhead", 125e-6, 0.8, graph_launches=1,
                   **cuda_clocks(60e-6, 60e-6), **profiled(150e-6, (COPY, 1, 10e-6), PRODUCT)),
        ],
        ["10.0 µs", "60.0 µs"],
        share=10 / 125,
        silent={
            "a mode that records no graphs": last(compile_mode="default"),
            "no graph was launched": last(graph_launches=0),
            "a step of training": last(phase="train"),
            "a kernel of an optimizer": last(heaviest_kernels=kernels((FOR_STATES, 1, 10e-6))),
            "eager copies as well": first(**profiled(100e-6, (COPY, 1, 10e-6))),
            "less than 3 % of the device's time": last(
                heaviest_kernels=kernels((COPY, 1, 1.7e-6), PRODUCT)
            ),
            "a profile that contradicts the clocks": last(
                flags=["profile_contradicts_device_time"]
            ),
        },
        still={
            "3 % of the device's time": last(
                heaviest_kernels=kernels((COPY, 1, 1.9e-6), PRODUCT)
            ),
            "no plain eager": alone,
        },
    ),
    "device_is_the_limit": World(
        [
            record("inference_mode", 100e-6, 1.0, launches=84, **cuda_clocks(20e-6, 90e-6)),
            record("cuda-graph", 100e-6, 1.0, graph_launches=1, launches=0,
                   **cuda_clocks(8e-6, 90e-6)),
        ],
        ["84 launches of eager", "1 graph launch", "90.0 % [89.4, 90.6]"],
        share=0.9,
        silent={
            "no graph was launched": last(graph_launches=0),
            "the host is the limit": last(bound_by="overhead"),
            "the interval admits a gain of a tenth": last(speedup=ends(high=1.11)),
            "the interval shows a loss of a tenth": last(speedup=ends(high=0.90)),
        },
        still={
            "the interval excludes a gain of a tenth": last(speedup=ends(high=1.09)),
            "the interval admits a loss of less": last(speedup=ends(high=0.92)),
        },
    ),
}  # fmt: skip
