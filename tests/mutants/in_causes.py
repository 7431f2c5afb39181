"""Faults in the rules of causes: each rule turned round, and their order."""

from __future__ import annotations

from tests.mutants.fault import Fault

OVERHEAD = "tests/analysis/causes/test_overhead.py"
KERNELS = "tests/analysis/causes/test_kernels.py"
PRECISION = "tests/analysis/causes/test_precision.py"
COMPILER = "tests/analysis/causes/test_compiler.py"
GRAPHS = "tests/analysis/causes/test_graphs.py"
COSTS = "tests/analysis/causes/test_costs_and_machine.py"
FINDING = "tests/analysis/causes/test_finding.py"

CAUSES = (
    Fault(
        "gradients are blamed where the mode without them is slower",
        "analysis/causes/overhead.py",
        'one["speedup_ci_low"] > row["speedup_ci_high"]',
        'one["speedup_ci_high"] < row["speedup_ci_low"]',
        (f"{OVERHEAD}::test_gradients_left_on_are_named_with_the_gain_of_the_same_mode_without",),
    ),
    Fault(
        "no autograd is a gain where it may be none",
        "analysis/causes/overhead.py",
        'if 1 - 1 / alone["speedup_ci_low"] < LEAST:',
        'if 1 - 1 / alone["speedup_ci_low"] > LEAST:',
        (f"{OVERHEAD}::test_recording_nothing_for_a_backward_is_the_gain_of_its_grad_axis",),
    ),
    Fault(
        "more overhead explains a gain",
        "analysis/causes/overhead.py",
        "evidence.ends_of(saved.overhead)[0] < LEAST:",
        "evidence.ends_of(saved.overhead)[0] > LEAST:",
        (f"{OVERHEAD}::test_less_dispatch_explains_a_gain",),
    ),
    Fault(
        "less overhead explains a loss",
        "analysis/causes/overhead.py",
        "evidence.ends_of(saved.overhead)[1] > -LEAST:",
        "evidence.ends_of(saved.overhead)[1] < -LEAST:",
        (f"{OVERHEAD}::test_more_dispatch_explains_a_loss",),
    ),
    Fault(
        "compiled code explains a gain of the grad axis",
        "analysis/causes/overhead.py",
        'row["speedup_ci_low"] <= before["speedup_ci_high"]',
        "False",
        (f"{OVERHEAD}::test_a_gain_of_compiling_is_the_one_over_the_same_mode_without",),
    ),
    Fault(
        "calls bound by work are bound by overhead",
        "analysis/causes/overhead.py",
        'row["bound_by"] != "overhead"',
        'row["bound_by"] == "overhead"',
        (f"{OVERHEAD}::test_a_call_bound_by_dispatch_names_its_operators",),
    ),
    Fault(
        "cheap guards are named",
        "analysis/causes/overhead.py",
        "share < LEAST_GUARDS",
        "share > LEAST_GUARDS",
        (f"{OVERHEAD}::test_guards_are_named_if_they_take_a_visible_part",),
    ),
    Fault(
        "generated kernels remain, others do not",
        "analysis/causes/kernels.py",
        "for one in kernels(row) if not one.is_generated]",
        "for one in kernels(row) if one.is_generated]",
        (f"{KERNELS}::test_kernels_that_remain_are_named_with_their_share",),
    ),
    Fault(
        "kernels that remain are named for a small share",
        "analysis/causes/kernels.py",
        "share is None or share < HALF",
        "share is None or share > HALF",
        (f"{KERNELS}::test_kernels_that_remain_are_named_with_their_share",),
    ),
    Fault(
        "more work explains a gain",
        "analysis/causes/kernels.py",
        "evidence.ends_of(saved.work)[0] < LEAST:",
        "evidence.ends_of(saved.work)[0] > LEAST:",
        (f"{KERNELS}::test_fewer_kernels_explain_a_gain",),
    ),
    Fault(
        "generated kernels that are faster explain a loss",
        "analysis/causes/kernels.py",
        "< SLOWER * old_s",
        "> SLOWER * old_s",
        (f"{KERNELS}::test_generated_kernels_explain_a_loss_if_they_take_longer",),
    ),
    Fault(
        "work far above its floor has little to gain",
        "analysis/causes/kernels.py",
        'row["floor_s"] < NEAR * longest_s',
        'row["floor_s"] > NEAR * longest_s',
        (f"{KERNELS}::test_work_near_its_floor_has_little_to_gain",),
    ),
    Fault(
        "few casts are named",
        "analysis/causes/precision.py",
        "share < LEAST_CASTS",
        "share > LEAST_CASTS",
        (f"{PRECISION}::test_casts_of_autocast_have_a_share_and_a_count",),
    ),
    Fault(
        "casts of fp32 count, too",
        "analysis/causes/precision.py",
        "_without(one, before.get(one.name)) for one in mine",
        "_without(one, None) for one in mine",
        (f"{PRECISION}::test_casts_are_not_named",),
    ),
    Fault(
        "a CPU with bf16 has none",
        "analysis/causes/precision.py",
        "not LOW[dtype].isdisjoint(sets.split())",
        "LOW[dtype].isdisjoint(sets.split())",
        (f"{PRECISION}::test_a_cpu_without_bf16_is_named_where_bf16_is_slower",),
    ),
    Fault(
        "a GPU with bf16 has none",
        "analysis/causes/precision.py",
        "float(capability) >= TENSOR_CORES[dtype]",
        "float(capability) < TENSOR_CORES[dtype]",
        (f"{PRECISION}::test_a_gpu_without_bf16_is_named_by_its_compute_capability",),
    ),
    Fault(
        "faster products explain a loss",
        "analysis/causes/precision.py",
        "    if products.ratio < DIFFERS:",
        "    if products.ratio > DIFFERS:",
        (f"{PRECISION}::test_products_explain_what_they_can",),
    ),
    Fault(
        "slower products explain a gain",
        "analysis/causes/precision.py",
        "products.ratio > 1 / DIFFERS",
        "products.ratio < 1 / DIFFERS",
        (f"{PRECISION}::test_products_explain_what_they_can",),
    ),
    Fault(
        "products are compared at different paces",
        "analysis/causes/precision.py",
        "evidence.seconds(mine) / pace",
        "evidence.seconds(mine)",
        (f"{PRECISION}::test_a_profile_at_half_the_pace_is_compared_at_the_same_pace",),
    ),
    Fault(
        "products in tensor cores are products without",
        "analysis/causes/precision.py",
        "if _SIMT.search(one.name) and",
        "if not _SIMT.search(one.name) and",
        (f"{PRECISION}::test_products_without_tensor_cores",),
    ),
    Fault(
        "recompilations are named where there are none",
        "analysis/causes/compiler.py",
        "not (timed or reasons)",
        "(timed or reasons)",
        (f"{COMPILER}::test_recompilations_while_timing_weigh_most",),
    ),
    Fault(
        "graph breaks are named where there are none",
        "analysis/causes/compiler.py",
        'if not row["graph_breaks"]:',
        'if row["graph_breaks"]:',
        (f"{COMPILER}::test_a_graph_break_is_named_with_its_place_and_torchs_reason",),
    ),
    Fault(
        "operators with code of their own are left to eager",
        "analysis/causes/compiler.py",
        "if one.name in names]",
        "if one.name not in names]",
        (f"{COMPILER}::test_operators_left_to_eager_are_named_by_their_share",),
    ),
    Fault(
        "a mode with graphs has none",
        "analysis/causes/graphs.py",
        "not _captures(row) or not phrases.not_in_effect(row) or why is None",
        "not _captures(row) or phrases.not_in_effect(row) or why is None",
        (f"{GRAPHS}::test_a_mode_without_its_graphs_says_why_and_nothing_else",),
    ),
    Fault(
        "other causes of a mode that is not in effect",
        "analysis/causes/finding.py",
        "if one.kind in (DECISIVE, HINT)]",
        "if one.kind in (DECISIVE, HINT, 1)]",
        (f"{GRAPHS}::test_a_mode_without_its_graphs_says_why_and_nothing_else",),
    ),
    Fault(
        "an idle device is the limit",
        "analysis/causes/graphs.py",
        'row["bound_by"] != "work" or row["device_share"] is None',
        'row["bound_by"] == "work" or row["device_share"] is None',
        (f"{GRAPHS}::test_saved_launches_do_not_help_a_busy_device",),
    ),
    Fault(
        "a short first call is named",
        "analysis/causes/first_call.py",
        "first_s < DOMINATES * call_s",
        "first_s > DOMINATES * call_s",
        (f"{COSTS}::test_a_long_first_call_is_named_with_its_phases_and_with_a_warm_cache",),
    ),
    Fault(
        "little memory of compiling is named",
        "analysis/causes/memory.py",
        "setup - before < LEAST_BYTES or",
        "setup - before > LEAST_BYTES or",
        (f"{COSTS}::test_memory_of_compiling_is_compared_with_a_steady_call",),
    ),
    Fault(
        "threads that are slower are recommended",
        "analysis/causes/machine.py",
        '* (1 + LITTLE) < row["latency_ci_low_s"]',
        '* (1 + LITTLE) > row["latency_ci_low_s"]',
        (f"{COSTS}::test_another_number_of_threads_that_is_faster_is_named",),
    ),
    Fault(
        "idle cores where all are busy",
        "analysis/causes/machine.py",
        "or count >= cores:",
        "or count < cores:",
        (f"{COSTS}::test_idle_cores_are_a_hint_where_arithmetic_is_the_limit",),
    ),
    Fault(
        "the smallest part of a call comes first",
        "analysis/causes/finding.py",
        "key=lambda one: (one.kind, -(one.share or 0.0))",
        "key=lambda one: (one.kind, one.share or 0.0)",
        (f"{FINDING}::test_causes_are_ordered_by_kind_then_by_share",),
    ),
    Fault(
        "slower is called faster",
        "analysis/causes/verdicts.py",
        "{_times(1 / row['speedup'])} slower",
        "{_times(1 / row['speedup'])} faster",
        (f"{FINDING}::test_the_lead_says_what_is_explained",),
    ),
    Fault(
        "losers are no longer named first",
        "analysis/causes/important.py",
        "return 0, size",
        "return 2, -size",
        ("tests/analysis/causes/test_important.py",),
    ),
)
