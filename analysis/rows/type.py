"""The type of a row, as `python -m analysis.dictionary` writes it from the declared columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from modescope.bench.records.outcomes import Checked, Status
from modescope.bench.stats.estimates import Estimate, Verdict


class Row(TypedDict):
    """A row of the derived table, by column; unknown values are None.

    A count that may be unknown is a float, as pandas reads it.
    """

    schema_version: int
    run_id: str
    case_id: str
    study: str
    started_at: str
    budget: str
    budget_rank: int
    budget_settings: str | None
    seed: int
    replicate: int
    status: Status
    reason: str | None
    duration_s: float | None
    command: str
    case_order: str | None
    position: float | None
    versus_block: float | None
    versus_side: str | None
    versus_state: str | None
    confirms: str | None
    profile: bool | None
    memory: bool | None
    explain: str | None
    max_error: float | None
    model: str
    model_args: str
    fullgraph: bool
    shape: str
    batch: float | None
    seq: float | None
    phase: str
    optimizer: str | None
    training: str | None
    dtype: str
    mode: str
    grad: str
    autocast: bool
    compile_mode: str
    graph: bool
    baseline_mode: str | None
    baseline_dtype: str | None
    device: str
    threads: int
    compile_cache: str
    batch_dim: float | None
    compile_options: str | None
    axes: str | None
    quantize: str | None
    model_kernels: str | None
    model_inputs: str | None
    calls: str | None
    calls_pad: str | None
    data: str | None
    cpu_name: str | None
    cpu_model: str | None
    cpu_capability: str | None
    cpu_instructions: str | None
    cpu_cores: float | None
    cpu_quota_cores: float | None
    cpu_max_hz: float | None
    cpu_boost: bool | None
    cpu_governor: str | None
    cpu_microcode: str | None
    hypervisor: str | None
    environment_id: str | None
    host: str | None
    device_name: str | None
    memory_bytes: float | None
    python_version: str | None
    torch_version: str | None
    triton_version: str | None
    cuda_version: str | None
    driver_version: str | None
    power_limit_w: float | None
    load_1min: float | None
    git_commit: str | None
    git_dirty: bool | None
    variables: str | None
    source_id: str | None
    model_source_id: str | None
    compute_capability: str | None
    gpu_uuid: str | None
    node: str | None
    scheduler: str | None
    scheduler_job: str | None
    restart: float | None
    in_effect: bool | None
    in_effect_note: str | None
    matmul_precision: str | None
    seen_grad: str | None
    seen_autocast: str | None
    seen_weight_dtype: str | None
    seen_attention: str | None
    seen_axes: str | None
    kernel_use: str | None
    kernel_names: str | None
    layout_kept: bool | None
    named_inputs: bool | None
    changed_arguments: str | None
    changed_state: str | None
    state_left: str | None
    dtypes_kept: str | None
    steady_operators: str | None
    checked: Checked | None
    checked_note: str | None
    checked_inputs: str | None
    checked_against: str | None
    error: float | None
    error_place: str | None
    unchecked_outputs: str | None
    eager_error: float | None
    baseline_note: str | None
    baseline_error: float | None
    baseline_error_limit: float | None
    error_limit: float | None
    scale_error: float | None
    eager_scale_error: float | None
    scale_error_limit: float | None
    drawn_spread: float | None
    first_call_s: float | None
    baseline_first_call_s: float | None
    graphs: float | None
    graph_breaks: float | None
    graph_break_reasons: str | None
    eager_functions: str | None
    recompiles: float | None
    torch_warnings: str | None
    autotuned: float | None
    graph_launches: float | None
    regions: float | None
    regions_called: float | None
    region_names: str | None
    quantized_share: float | None
    quantizer: str | None
    output_cosine: float | None
    top1_agreement: float | None
    settings_put_back: str | None
    settings_in_calls: str | None
    own_graphs: float | None
    first_pass_s: str | None
    compiled_calls: str | None
    gave_up_at_call: float | None
    eager_calls: str | None
    size_latencies_s: str | None
    warmup_s: float | None
    timed_s: float | None
    calls_per_round: float | None
    rounds_left_out: float | None
    rounds_again: bool | None
    best_pace_s: float | None
    stopped_early: bool | None
    latency_alone_s: float | None
    clock_alone_hz: float | None
    throttle_alone: Sequence[str] | None
    pipelined_note: str | None
    device_note: str | None
    device_calls: float | None
    device_calls_wanted: float | None
    dispatch_note: str | None
    clocks_s: float | None
    working_set_bytes: float | None
    l2_bytes: float | None
    last_level_bytes: float | None
    evicted_with: str | None
    evicted_bytes: float | None
    baseline_evicted_bytes: float | None
    eviction_s: float | None
    cold_read_s: float | None
    warm_read_s: float | None
    synchronize_s: float | None
    watched_s: float | None
    cpu_wait_s: float | None
    others_cpu_s: float | None
    machine_cores: float | None
    cgroup_throttled_s: float | None
    device_clock_hz: Sequence[float] | None
    throttle_reasons: Sequence[str] | None
    gpu_processes: float | None
    loss_scale: float | None
    overflow_skipped: bool | None
    parts_note: str | None
    generated_kernels: float | None
    extern_calls: float | None
    fallback_kernels: str | None
    own_kernels: float | None
    own_kernel_names: str | None
    bytes_accessed: float | None
    code_hash: str | None
    frozen_weights: float | None
    packed_weights: float | None
    compiler_cache_hits: float | None
    compiler_cache_misses: float | None
    compile_phases_s: str | None
    recompile_reasons: str | None
    cudagraph_skip_reasons: str | None
    package_export_s: float | None
    package_build_s: float | None
    package_load_s: float | None
    package_bytes: float | None
    starts_s: Sequence[float] | None
    baseline_starts_s: Sequence[float] | None
    start_phases_s: str | None
    fill_s: float | None
    cache_bytes: float | None
    shipped_bytes: float | None
    start_graphs: float | None
    start_hits: float | None
    start_misses: float | None
    ops_dispatched: float | None
    ops_leaf: float | None
    leaf_ops_s: float | None
    kernels: float | None
    kernels_s: float | None
    launches: float | None
    copies: float | None
    fills: float | None
    device_busy_s: float | None
    profiled_pace_s: float | None
    guards_s: float | None
    compiled_wrapper_s: float | None
    profiled_span_s: float | None
    launch_delay_s: float | None
    heaviest_kernels: str | None
    heaviest_ops: str | None
    profiler_overhead: float | None
    profile_note: str | None
    trace: str | None
    setup_peak_bytes: float | None
    setup_peak_note: str | None
    weights_bytes: float | None
    input_bytes: float | None
    gradient_bytes: float | None
    optimizer_state_bytes: float | None
    resident_bytes: float | None
    workspace_bytes: float | None
    saved_activation_bytes: float | None
    autocast_copy_bytes: float | None
    step_peak_bytes: float | None
    step_left_bytes: float | None
    allocations_per_call: float | None
    allocated_bytes_per_call: float | None
    reserved_bytes: float | None
    graph_pool_bytes: float | None
    graph_pool_live_bytes: float | None
    memory_note: str | None
    snapshot: str | None
    snapshot_note: str | None
    flops: float | None
    least_bytes: float | None
    eager_bytes: float | None
    subnormal: str | None
    work_note: str | None
    steps: Sequence[str] | None
    steps_unlike: str | None
    steps_s: float | None
    steps_note: str | None
    ceiling_flops_per_s: float | None
    ceiling_bytes_per_s: float | None
    flags: list[str]
    rounds: float | None
    slow_rounds: float | None
    peak_bytes: float | None
    measured_times: int
    replicates: int
    speedup_processes: int
    replicates_not_ok: int
    speedup_process_spread: float | None
    latency_process_spread: float | None
    environment: str
    process_run_ids: str
    process_nodes: str | None
    apart: str | None
    latency_s: Estimate | None
    latency_p95_s: float | None
    baseline_latency_s: Estimate | None
    speedup: Estimate | None
    latency_paired_s: Estimate | None
    confirming_speedup: Estimate | None
    speedup_same_grad: Estimate | None
    verdict: Verdict | None
    link_run_id: str | None
    chained_speedup: Estimate | None
    mde: float | None
    break_even_calls: float | None
    host_s: Estimate | None
    device_s: Estimate | None
    pipelined_s: Estimate | None
    dispatch_s: Estimate | None
    host_share: Estimate | None
    device_share: Estimate | None
    pipelined_share: Estimate | None
    dispatch_share: Estimate | None
    host_per_device: Estimate | None
    device_gain: Estimate | None
    dispatch_ratio: Estimate | None
    pace: float | None
    pace_slowest: float | None
    latency_at_full_pace_s: Estimate | None
    threads_gain: Estimate | None
    forward_s: Estimate | None
    backward_s: Estimate | None
    optimizer_s: Estimate | None
    scaler_s: Estimate | None
    forward_share: Estimate | None
    backward_share: Estimate | None
    optimizer_share: Estimate | None
    scaler_share: Estimate | None
    parts_ratio: Estimate | None
    host_paired_s: float | None
    device_paired_s: float | None
    pipelined_paired_s: float | None
    dispatch_paired_s: float | None
    forward_paired_s: float | None
    backward_paired_s: float | None
    optimizer_paired_s: float | None
    scaler_paired_s: float | None
    launch_s: float | None
    work_s: float | None
    host_wait_s: float | None
    bound_by: str | None
    device_idle_fraction: float | None
    residual_s: float | None
    fusion_gain: Estimate | None
    fusion_speedup: float | None
    launch_gain: float | None
    bytes_saved: float | None
    options_changed_code: bool | None
    floor_s: float | None
    floor_bound: str | None
    roofline_fraction: float | None
    flags_touch: list[str]
    step_autograd: Estimate | None
    step_autocast: Estimate | None
    step_python: Estimate | None
    step_code: Estimate | None
    step_entry: Estimate | None
    step_guards: Estimate | None
    step_capture: Estimate | None
    step_fusion: Estimate | None
    steps_gap: Estimate | None
    steps_control: Estimate | None
    steps_rest: float | None
    with_skip_guard_on_inbuilt_nn_modules: Estimate | None
    with_skip_guard_on_all_nn_modules: Estimate | None
    with_keep_tensor_guards: Estimate | None
    with_skip_all_guards: Estimate | None
    with_flush_denormal: Estimate | None
    with_contiguous: Estimate | None
    with_static: Estimate | None
    start_s: Estimate | None
    start_ratio: Estimate | None
    measured_cause: str | None
    measured_share: Estimate | None
    cause: str | None
    cause_text: str | None

    # while columns are derived, and in `compare`: the rest of the summary
    paced_latency: NotRequired[Estimate | None]
    pace_fastest_s: NotRequired[float | None]
    pace_typical_s: NotRequired[float | None]
    profiled_share: NotRequired[float | None]
    busy_share: NotRequired[float | None]

    # after derive.against.against
    against_mode: NotRequired[str | None]
    against_dtype: NotRequired[str | None]
    against_speedup: NotRequired[Estimate | None]
    against_verdict: NotRequired[Verdict | None]
    against_break_even_calls: NotRequired[float | None]
    against_processes: NotRequired[float | None]
    against_is_chained: NotRequired[bool | None]

    # after derive.over_fp32.in_place
    is_chained: NotRequired[bool]

    # in a report, beside its recommendations
    is_recommended: NotRequired[bool]
