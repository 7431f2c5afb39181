"""What the worlds of causes do not show: shares, remedies, and causes that meet in one row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.causes import outcome
from modescope.analysis.causes.finding import findings
from modescope.analysis.causes.types import Finding
from modescope.analysis.derive.mix import mix_of
from modescope.bench.records.results import Record
from tests.helpers.cause_worlds import WORLDS
from tests.helpers.cause_worlds.compiler import VARIED
from tests.helpers.causes import Kernel, codes, of_last, profiled, rows_of
from tests.helpers.rows import ends, row_with
from tests.helpers.studies import PACE_S, cpu_clocks, cuda_clocks, record

NATIVE = "avx2 avx512_bf16"


def _of(folder: Path, *records: Record, **columns: Any) -> dict[str, Finding]:
    """The causes of the last of these rows, in their order."""
    return {one.code: one for one in of_last(rows_of(records, folder), **columns)}


@pytest.mark.parametrize(("longer", "is_read"), [(3.9, True), (4.1, False)])
def test_no_cause_is_drawn_from_a_profile_far_longer_than_the_clock(
    longer: float, is_read: bool, tmp_path: Path
) -> None:
    """A call of 0.197 ms was explained by 20.8 ms of guards in a profiled call of 22.9 ms."""
    span_s = longer * 197e-6
    profile = profiled(span_s, ("aten::addmm", 4, 0.3 * span_s), guards_s=0.5 * span_s)
    one = record("compile", 197e-6, 0.5, compiled_wrapper_s=0.1 * span_s, spread=0.002, **profile)
    found = _of(tmp_path, one)
    assert ("guards" in found) is is_read
    assert not any("profiled call" in each.text for each in found.values()) is not is_read


def test_calls_of_several_sizes(tmp_path: Path) -> None:
    times: dict[str, Any] = {"first_call_s": 5.0, "baseline_first_call_s": 0.02, "speedup": 2.0}
    varied, plain = rows_of(
        [record(**VARIED, **times), record(**times, case_id="plain", calls=None)], tmp_path
    )
    assert varied["break_even_calls"] == pytest.approx(6 * plain["break_even_calls"])
    mix = mix_of(varied)
    assert mix.steady_s() == [1e-3, 2e-3, 1e-3, 4e-3, 2e-3, 10e-3]
    assert mix.steady_s(side=1) == [2e-3, 3e-3, 2e-3, 4e-3, 3e-3, 8e-3]
    resized = codes(of_last([varied], recompile_reasons='["size mismatch"]'))
    assert "size_compiles" in resized
    assert "recompiles" not in resized  # told once


BREAKS: dict[str, Any] = {
    "graph_breaks": 2, "graph_break_reasons": "[]", "eager_functions": '["Net.forward"]',
}  # fmt: skip
LEFT = ("aten::add", 30, 40e-6), ("aten::addmm", 2, 20e-6), ("x_cpp_fused_gelu_0", 1, 10e-6)
OF_GPU = ("elementwise_kernel", 30, 20e-6), ("nvjet_tst_128x64_h_bz", 2, 60e-6)


@pytest.mark.parametrize(
    ("columns", "guards_s", "share"),
    [
        (profiled(100e-6, *LEFT), 5e-6, 0.7),  # without the product, which no compiler replaces
        ({**profiled(100e-6, *LEFT), "eager_functions": "[]"}, 5e-6, 0.3),  # around the pieces
        # On CUDA kernels run while the host works, and no name tells products from others
        ({**profiled(100e-6, *OF_GPU), **cuda_clocks(95e-6, 90e-6)}, None, None),
        ({**profiled(100e-6, *OF_GPU), **cuda_clocks(95e-6, 90e-6)}, 5e-6, 0.3),
    ],
)
def test_a_graph_break_leaves_kernels_and_guards(
    tmp_path: Path, columns: dict[str, Any], guards_s: float | None, share: float | None
) -> None:
    one = record(speedup=0.8, first_call_s=0.1, **{**BREAKS, **columns})
    found = _of(tmp_path, one, guards_s=guards_s, compiled_wrapper_s=25e-6)
    expected = None if share is None else pytest.approx(share)
    assert found["graph_breaks"].share == expected


def test_a_first_call_is_not_compared_with_one_whose_warm_cache_lacked_the_code(
    tmp_path: Path,
) -> None:
    same: dict[str, Any] = {"speedup": 1.25, "case_id": "same"}
    warm = record(first_call_s=1.03, compile_cache="warm", compiler_cache_misses=1, **same)
    found = _of(tmp_path, warm, record(first_call_s=3.36, **same))
    assert "warm compiler cache" not in found["first_call"].sentence


def test_threads_are_compared_at_equal_pace(tmp_path: Path) -> None:
    """The process with one thread was slowed down by the machine, not by its thread."""
    same: dict[str, Any] = {"speedup": 1.25, "first_call_s": 0.1}
    other = record("compile", 200e-6, threads=2, case_id="other", **same)
    slowed = record("compile", 357e-6, pace_rounds_s=(1.785 * PACE_S,) * 40, **same)
    assert _of(tmp_path / "slowed", other, slowed) == {}
    unknown = record("compile", 357e-6, pace_rounds_s=None, **same)
    assert [*_of(tmp_path / "unknown", other, unknown)] == ["threads"]


def test_two_reasons_to_compile_again_are_not_two_sizes_more(tmp_path: Path) -> None:
    reasons = "[\"tensor 'x' size mismatch\", \"tensor 'y' size mismatch\"]"
    one = record("reduce-overhead", 100e-6, 1.0, first_call_s=0.1, **cuda_clocks(95e-6, 40e-6))
    found = _of(tmp_path, one, recompile_reasons=reasons)
    assert [*found][:2] == ["graph_per_size", "bound_by_overhead"]
    assert "several so far" in found["graph_per_size"].sentence


SIZE = "tensor 'x' size mismatch at index 1. expected 16, actual 182"


@pytest.mark.parametrize(
    ("reasons", "is_size"),
    [
        ([SIZE], True),
        (["L['x'].size()[1] == 16"], True),
        (["a global changed"], False),
        ([SIZE, "a global changed"], False),
        ([], False),
    ],
)
@pytest.mark.parametrize("dynamic", [None, 0.9, 0.7])
def test_sizes_that_change_are_compiled_once_or_padded(
    tmp_path: Path, reasons: list[str], is_size: bool, dynamic: float | None
) -> None:
    """Once, unless the study shows that it is no faster."""
    speedups = [0.8] if dynamic is None else [dynamic, 0.8]
    records = [
        record("compile", speedup=one, spread=0.002, recompiles=2, case_id=str(at))
        for at, one in enumerate(speedups)
    ]
    *others, row = rows_of(records, tmp_path)
    rows = [*(row_with(one, mode="compile-dynamic") for one in others), row]
    found = of_last(rows, recompile_reasons=json.dumps(reasons))
    (remedy,) = (one.remedy for one in found if one.code == "recompiles")
    assert ("calls.pad" in remedy) is is_size
    assert ("mode=compile-dynamic" in remedy) is (is_size and dynamic != 0.7)
    assert ("Keep constant" in remedy) is not is_size


def test_a_row_without_an_interval_refutes_no_advice(tmp_path: Path) -> None:
    """Comparing its unknown interval with another row's ended every command with a traceback."""
    other, row = rows_of(
        [record("compile", case_id="other"), record("compile", case_id="row")], tmp_path
    )
    unknown = {"speedup": ends(low=None, high=None), "verdict": None}
    found = of_last(
        [{**other, "mode": "compile-dynamic"}, row], recompile_reasons=json.dumps([SIZE]), **unknown
    )
    (remedy,) = (one.remedy for one in found if one.code == "recompiles")
    assert "mode=compile-dynamic" in remedy


@pytest.mark.parametrize(
    ("mode", "advised"),
    [("compile", "mode=reduce-overhead"), ("reduce-overhead", "mode=compile-cuda-graph")],
)
def test_a_graph_with_guards_is_advised_to_be_captured_whole(
    mode: str, advised: str, tmp_path: Path
) -> None:
    """On an H100 `reduce-overhead` was told to capture a graph, which it had done."""
    found = _of(
        tmp_path,
        record("inference_mode", 400e-6, 1.0, **cuda_clocks(20e-6, 390e-6)),
        record(mode, 500e-6, 0.8, **cuda_clocks(400e-6, 390e-6)),
    )
    assert advised in found["more_overhead"].remedy


@pytest.mark.parametrize(
    ("sibling", "advised"),
    [({"mode": "compile"}, False), ({"mode": "compile", "dtype": "bf16"}, True),
     ({"mode": "amp", "dtype": "fp32"}, True)],
)  # fmt: skip
def test_compiling_is_advised_unless_the_study_has_measured_it(
    tmp_path: Path, sibling: dict[str, Any], advised: bool
) -> None:
    clocks = cpu_clocks(100e-6, 80e-6)
    found = _of(tmp_path, record(**sibling, speedup=0.9), record("no_grad", 100e-6, 1.0, **clocks))
    remedy = found["bound_by_overhead"].remedy
    assert ("mode=compile" in remedy) is advised
    assert "larger batch" in remedy


@pytest.mark.parametrize(("captured", "is_told"), [(0.8, False), (1.2, True)])
def test_graphs_that_the_study_has_measured_as_slower_are_not_advised(
    tmp_path: Path, captured: float, is_told: bool
) -> None:
    clocks = cuda_clocks(100e-6, 40e-6)
    found = _of(
        tmp_path,
        record("cuda-graph", 100e-6 / captured, captured, spread=0.002, **clocks),
        record("no_grad", 100e-6, 1.0, spread=0.002, **clocks),
    )
    remedy = found["bound_by_overhead"].remedy
    assert ("mode=cuda-graph" in remedy) is is_told
    assert "mode=reduce-overhead" not in remedy  # the study knows which of the two is faster
    assert found["bound_by_overhead"].share == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize(
    ("columns", "lower", "remedy"),
    [
        ({"cpu_instructions": NATIVE}, None, "Try a lower precision"),
        ({"cpu_instructions": "avx2"}, None, "Only less work, more threads"),
        ({"cpu_instructions": NATIVE}, 2.0, "Lower the precision: amp bf16 is 2.00× as fast"),
        ({"cpu_instructions": NATIVE}, 0.6, "Only less work, more threads"),
        ({"cpu_instructions": NATIVE}, 1.01, "Only less work, more threads"),  # intervals overlap
        ({"device": "cuda", "bound_by": "work"}, 0.6, "Only less work, or a faster device"),
    ],
)
def test_the_remedy_for_kernels_fits_the_device_and_what_was_measured(
    tmp_path: Path, columns: dict[str, Any], lower: float | None, remedy: str
) -> None:
    profile = profiled(100e-6, ("aten::addmm", 4, 80e-6), cpu_instructions=None)
    others = [] if lower is None else [record("amp", speedup=lower)]
    plain = record("inference_mode", speedup=1.0, **profile)
    rows = rows_of([*others, plain, record(speedup=1.0, **profile)], tmp_path)
    on_device = [row_with(row, **columns) for row in rows]
    (found,) = (one for one in findings(on_device)[-1] if one.code == "unchanged_kernels")
    assert found.remedy.startswith(remedy)


def _against_eager(
    mode: str, speedup: float, dispatch_s: float | None, **columns: Any
) -> list[Record]:
    """Inference_mode, as fast as its baseline, of whose 400 us 200 are dispatch; then `mode`."""
    latency_s = 400e-6 / speedup
    return [
        record("inference_mode", 400e-6, 1.0, ops_dispatched=40, **cpu_clocks(400e-6, 200e-6)),
        record(mode, latency_s, speedup, **(cpu_clocks(latency_s, dispatch_s) | columns)),
    ]


def test_less_dispatch_explains_a_gain(tmp_path: Path) -> None:
    profile = profiled(200e-6, ("aten::addmm", 4, 180e-6))
    one = _against_eager("compile", 2.0, 20e-6, ops_dispatched=10, **profile)
    found = _of(tmp_path / "one", *one)
    assert [*found][:2] == ["compiled_code", "less_overhead"]
    assert ", by less overhead (40 operators became 10)" in found["compiled_code"].sentence
    # Without a profile launches of compiled code may be overhead
    assert "less_overhead" not in _of(tmp_path / "no", *_against_eager("compile", 1.5, 20e-6))
    by_work = _against_eager("compile", 1.5, 195e-6, generated_kernels=3)
    assert "less_overhead" not in _of(tmp_path / "work", *by_work)


def test_compiling_under_autocast_is_compared_with_autocast(tmp_path: Path) -> None:
    plain, amp, both = (
        record(mode, speedup=speedup)
        for mode, speedup in (("inference_mode", 1.25), ("amp", 0.8), ("amp-compile", 2.0))
    )
    found = _of(tmp_path / "amp", plain, amp, both)
    assert next(iter(found)) == "compiled_code"
    assert found["compiled_code"].share == pytest.approx(0.75, abs=0.01)
    assert "compiled_code" not in _of(tmp_path / "alone", plain, both)


def test_compiling_with_fewer_bits_is_compared_with_as_few(tmp_path: Path) -> None:
    few, fewer = (
        dict[str, Any](quantize=name, axes=json.dumps({"quantize": name}))
        for name in ("weights", "dynamic")
    )
    rows = [
        record("eager", speedup=1.0),
        record("inference_mode[quantize=weights]", speedup=0.8, **few),
        record("inference_mode[quantize=dynamic]", speedup=0.5, **fewer),
        record("compile[quantize=dynamic]", speedup=2.0, **fewer),
    ]
    found = _of(tmp_path, *rows)
    assert found["compiled_code"].share == pytest.approx(1.5, abs=0.01)  # 1 / 0.5 - 1 / 2


@pytest.mark.parametrize("compiled", ["compile", "amp"])
def test_added_overhead_and_saved_work_make_up_the_difference(
    tmp_path: Path, compiled: str
) -> None:
    """Of a call 100 µs longer whose kernels take 40 µs less, 140 µs are overhead.

    The clocks have 20 µs of dispatch in eager, the profile 60 µs beside its kernels.
    """
    eager = profiled(400e-6, ("aten::addmm", 4, 340e-6), overhead=1.0)
    longer = profiled(500e-6, ("aten::addmm", 4, 300e-6), overhead=1.0)
    dispatch_s = 180e-6 if compiled == "compile" else None
    records = [
        record("inference_mode", 400e-6, 1.0, **(cpu_clocks(400e-6, 20e-6) | eager)),
        record(compiled, 500e-6, 0.8, **(cpu_clocks(500e-6, dispatch_s) | longer)),
    ]
    found = _of(tmp_path, *records)
    assert "add 140 µs to a call" in found["more_overhead"].sentence
    assert found["more_overhead"].share == pytest.approx(140 / 500, abs=0.01)
    # Beside other programs what is no kernel may have waited for them
    flagged = _of(tmp_path, *records, flags=["contended"])
    assert ("more_overhead" in flagged) is (compiled == "compile")


MM = ("aten::mm", 4, 300e-6)
SLOW = ("aten::mm", 4, 900e-6)


def _precisions(
    speedup: float, fp32: Kernel, bf16: Kernel, instructions: str | None = NATIVE
) -> list[Record]:
    """Inference_mode in fp32, then amp in bf16."""
    same: dict[str, Any] = {"cpu_instructions": instructions}
    return [
        record("inference_mode", 400e-6, 1.0, **profiled(400e-6, fp32), **same),
        record("amp", 400e-6 / speedup, speedup, **profiled(1e-3, bf16), **same),
    ]


@pytest.mark.parametrize(
    ("name", "in_fp32", "named"),
    [
        ("graph_1_cpp_fused__to_copy_t_1", "aten::mm", True),
        ("bfloat16_copy_kernel_cuda", "aten::mm", True),
        ("direct_copy_kernel_cuda", "aten::mm", True),
        ("direct_copy_kernel_cuda", None, False),  # which copies are casts is unknown
        ("aten::_to_copy", "aten::_to_copy", False),  # in fp32, too
    ],
)
def test_casts_are_what_plain_eager_does_not_copy(
    tmp_path: Path, name: str, in_fp32: str | None, named: bool
) -> None:
    study = _precisions(0.4, (in_fp32 or "", 24, 820e-6), (name, 24, 820e-6))
    assert ("casts" in _of(tmp_path, *study[0 if in_fp32 else 1 :])) is named


@pytest.mark.parametrize(
    ("rate", "instructions", "says"),
    [
        (1.5e10, "avx2", "bf16 products run at 0.15 of fp32's rate"),
        (0.5e11, NATIVE, "the highest rate measured for bf16 products here is 0.50 of fp32"),
        (2e11, NATIVE, "Stay with fp32 at this size, or try a larger one."),
    ],
)
def test_the_measured_rates_are_told_where_they_are_known(
    tmp_path: Path, rate: float | None, instructions: str, says: str
) -> None:
    rows = rows_of(_precisions(0.4, MM, SLOW, instructions), tmp_path)
    rows[0] = {**rows[0], "ceiling_flops_per_s": 1e11}
    assert says in of_last(rows, ceiling_flops_per_s=rate)[0].text


def test_products_of_a_gpu_have_another_kernel_in_each_precision(tmp_path: Path) -> None:
    fp32 = ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3", 4, 380e-6)
    bf16 = ("nvjet_sm90_tst_128x64_64x8_1x2_h_bz_bias_TNT", 4, 40e-6)
    other = ("void at::native::vectorized_elementwise_kernel<4>", 3, 10e-6)
    eager = cuda_clocks(50e-6, 395e-6) | profiled(400e-6, fp32, other)
    amp = cuda_clocks(50e-6, 55e-6) | profiled(60e-6, bf16, other)
    found = _of(
        tmp_path, record("inference_mode", 400e-6, 1.0, **eager), record("amp", 60e-6, 6.5, **amp)
    )
    assert next(iter(found)) == "faster_products"
    assert "take 40.0 µs in bf16 and 380 µs in fp32" in found["faster_products"].sentence


def test_profiles_are_compared_at_the_same_pace(tmp_path: Path) -> None:
    rows = rows_of(_precisions(0.4, MM, SLOW), tmp_path)
    pace_s = rows[0]["profiled_pace_s"]
    slower = of_last(rows, profiled_pace_s=1.5 * pace_s)[0]
    assert "600 µs in bf16 and 300 µs in fp32." in slower.sentence
    assert "slower_products" in codes(of_last(rows, profiled_pace_s=2.3 * pace_s))
    assert "slower_products" not in codes(of_last(rows, profiled_pace_s=2.5 * pace_s))


@pytest.mark.parametrize(("capability", "named"), [("7.5", True), ("8.0", False), (None, False)])
def test_a_gpu_without_bf16_is_named_by_its_compute_capability(
    tmp_path: Path, capability: str | None, named: bool
) -> None:
    gpu = {"device": "cuda"}
    records = [
        record("inference_mode", 400e-6, 1.0, **(profiled(400e-6, MM) | gpu)),
        record("amp", 1e-3, 0.4, **(profiled(1e-3, SLOW) | gpu)),
    ]
    found = _of(tmp_path, *records, compute_capability=capability)
    assert ("no_native_dtype" in found) is named


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ("aten::gelu", "matrix products"),
        ("aten::_scaled_dot_product_flash_attention", "matrix products and attention"),
        ("aten::convolution", "matrix products and convolutions"),
    ],
)
def test_what_counts_as_a_product_is_named(tmp_path: Path, other: str, what: str) -> None:
    both = [((name, 4, 300e-6), (name, 4, 900e-6)) for name in ("aten::mm", other)]
    same: dict[str, Any] = {"cpu_instructions": NATIVE}
    found = _of(
        tmp_path,
        record("inference_mode", 1e-3, 1.0, **profiled(1e-3, *(a for a, _ in both)), **same),
        record("amp", 2.5e-3, 0.4, **profiled(2.5e-3, *(b for _, b in both)), **same),
    )
    assert found["slower_products"].sentence.startswith(f"{what} (aten::mm) take")


@pytest.mark.parametrize(
    ("columns", "is_told"),
    [({}, True), ({"dtype": "bf16"}, False), ({"dtype": "bf16", "autocast": True}, True)],
    ids=["fp32", "bf16", "autocast"],
)
def test_weights_in_bf16_are_no_remedy_for_themselves(
    tmp_path: Path, columns: dict[str, Any], is_told: bool
) -> None:
    rows = rows_of(WORLDS["cold_reads"].records, tmp_path)
    (remedy,) = (f.remedy for f in of_last(rows, **columns) if f.code == "cold_reads")
    assert ("bf16" in remedy) is is_told


def test_without_a_cause_a_row_says_whether_a_profile_or_rounds_are_missing(tmp_path: Path) -> None:
    profile = profiled(1e-4, ("aten::addmm", 1, 5e-5))
    made = (
        record("compile", speedup=2.0, **profile), record("no_grad", speedup=2.0),
        record("amp", speedup=1.0, spread=0.2, dtype="fp32"),
    )  # fmt: skip
    rows = {row["mode"]: row for row in rows_of(made, tmp_path)}
    with_it, without, wide = rows["compile"], rows["no_grad"], rows["amp"]
    assert outcome.undecided(with_it) == outcome.UNDECIDED
    assert outcome.undecided(without) == outcome.UNPROFILED
    assert "replicates=5" in outcome.undecided(wide)


def test_products_of_fewer_bits_are_compared_with_those_of_the_baseline(tmp_path: Path) -> None:
    """Integer products have another name, and often only eager with gradients was measured."""
    few: dict[str, Any] = {"axes": '{"quantize":"int8-dynamic"}', "quantize": "int8-dynamic"}
    eager = record("eager", 1e-3, 1.0, **profiled(1e-3, ("aten::addmm", 4, 8e-4)))
    for product_s, code in ((1e-4, "faster_products"), (7e-4, None)):
        profile = profiled(9e-4, ("aten::_int_mm", 4, product_s), ("cpp_fused_add_0", 3, 1e-4))
        made = record("compile[quantize=int8-dynamic]", 5e-4, 2.0, **few, **profile)
        found = _of(tmp_path / f"{product_s}", eager, made)
        assert ("faster_products" in found) is bool(code)
        if code:
            assert found[code].share == pytest.approx(0.7)
            told = "_int_mm) take 100 µs with int8-dynamic and 800 µs in fp32"
            assert told in found[code].text
