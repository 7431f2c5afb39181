"""Phases and reasons from torch's own records, and what is counted in the code for a GPU."""

from __future__ import annotations

import json

import pytest
import torch
from torch._dynamo.utils import CompilationMetrics
from torch._inductor import metrics
from torch._inductor.graph import GraphLowering

from modescope.bench.evidence import compilation, compiler_counts
from modescope.bench.records.columns.compiling import Compilations

FORWARD = CompilationMetrics(
    dynamo_cumulative_compile_time_us=10_000_000,
    aot_autograd_cumulative_compile_time_us=8_000_000,
    inductor_cumulative_compile_time_us=7_000_000,
    triton_compile_time_us=4_000_000,
    compile_time_autotune_time_us=1_000_000,
)
BACKWARD = CompilationMetrics(
    inductor_cumulative_compile_time_us=3_000_000, triton_compile_time_us=500_000
)
"""A backward is compiled on its own, by Inductor alone; what torch did not record is zero."""


def test_each_phase_is_without_those_inside_it() -> None:
    skipped = CompilationMetrics(cudagraph_skip_reason="due to cpu device")
    found = compilation._columns([FORWARD, BACKWARD, skipped], hits=0, misses=1)
    assert json.loads(found.compile_phases_s or "") == {
        "dynamo": 2.0, "aot": 1.0, "inductor": 4.5, "kernels": 4.5, "autotune": 1.0
    }  # fmt: skip
    assert json.loads(found.cudagraph_skip_reasons or "") == ["due to cpu device"]
    assert json.loads(found.recompile_reasons or "") == []


STACK = '  User stack trace:\n  File "/user/shop/net.py", line 24, in note'
LINE = "0/1: not self.log  # self.log.append(float(x.std()))  # mp/user/shop/net.py:24 in note"
SIZE = "tensor 'x' size mismatch at index 0. expected 4, actual 5"


def test_a_reason_is_the_guard_that_failed_and_its_place_each_once() -> None:
    recorded = (
        *(None, f"0/0: {SIZE}", f"3/1: {SIZE}", LINE + STACK, "a global changed", "y" * 500),
        "0/2: self.calls == 7  # self.calls += 1  # net.py:3 in forward (HINT: mark it)",
        "self.calls == 8 (HINT: torch.compile considers integer attributes)",
    )
    found = compilation.recompile_reasons(
        CompilationMetrics(recompile_reason=each) for each in recorded
    )
    (long,) = (each for each in found if each.startswith("y"))
    assert len(long) == compilation.LONGEST_REASON
    kept = [SIZE, "not self.log (net.py:24)", "a global changed", long]
    assert found == [*kept, "self.calls == 7 (net.py:3)", "self.calls == 8"]


@pytest.mark.full
def test_a_real_recompilation_has_torchs_reason() -> None:
    torch.compiler.reset()  # code of an earlier test would give a reason, too
    with compilation.watch_compilations() as watched:
        pass
    assert watched.columns == Compilations()
    module = torch.compile(torch.nn.ReLU(), backend="eager", dynamic=False)
    reasons = compiler_counts.recompile_reasons()
    with compilation.watch_compilations() as watched:
        for count in (2, 3):
            module(torch.ones(count))
    assert json.loads(watched.columns.compile_phases_s or "")["dynamo"] > 0
    (reason,) = reasons()
    assert "size mismatch at index 0. expected 2, actual 3" in reason
    assert json.loads(watched.columns.recompile_reasons or "") == [reason]
    assert compiler_counts.recompile_reasons()() == []
    torch.compiler.reset()


CALLS = """
{0}extern_kernels.addmm(arg1_1, arg4_1, reinterpret_tensor(arg0_1, (64, 64), (1, 64), 0), out=buf0)
{0}buf1 = buf0; del buf0  # reuse
{0}stream0 = get_raw_stream(0)
{0}triton_poi_fused_gelu_0.run(buf1, 512, stream=stream0)
{0}buf2 = extern_kernels.convolution(buf0, buf1, stride=(1, 1), groups=1, bias=None)
{0}assert_size_stride(buf2, (4, 16, 30, 30), (14400, 900, 30, 1), 'torch.ops.aten.convolution')
{0}buf3 = torch.ops.aten._scaled_dot_product_flash_attention.default(buf0, buf1, buf2)
{0}triton_per_fused_convolution_mean_relu_1.run(buf2, arg1_1, buf3, 64, 900, stream=stream0)
"""

DEFINED = """
async_compile = AsyncCompile()
triton_poi_fused_gelu_0 = async_compile.triton('triton_poi_fused_gelu_0', '''
@triton.jit
def triton_poi_fused_gelu_0(in_out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 512
''', device_str='cuda')
"""

DIRECT = f"{DEFINED}class Runner:\n    def call(self, args):{CALLS.format(' ' * 12)}"

PARTITIONED = f"""{DEFINED}def partition_0(args):{CALLS.format(" " * 8)}
class Runner:
    def call(self, args):
        (buf3,) = self.partitions[0](partition0_args)
runner = Runner(partitions=[partition_0,])
"""
"""As it is written when CUDA graphs are on."""


@pytest.mark.parametrize("code", [DIRECT, PARTITIONED], ids=["direct", "in partitions"])
def test_calls_of_kernels_and_libraries_are_counted(code: str) -> None:
    """As Inductor of torch 2.11 writes them."""
    with compilation.watch_code() as watched:
        GraphLowering.save_output_code(code)
    columns = watched.columns
    assert watched.symbolic_sizes == 0
    assert (columns.generated_kernels, columns.extern_calls) == (2, 3)
    assert columns.fallback_kernels == '["aten._scaled_dot_product_flash_attention.default"]'


OWN = """
norm_kernel_0 = async_compile.triton('norm_kernel', '''
@triton_heuristics.user_autotune(
    configs=[], inductor_meta={'kernel_name': 'norm_kernel_0'}, custom_kernel=True,
)
@triton.jit
def norm_kernel(x):
    other.run(x)
''', device_str='cuda')
triton_norm_1 = async_compile.triton('triton_norm', '''
@triton_heuristics.user_autotune(configs=[])
def triton_norm(x): ...
''', device_str='cuda')
triton_per_fused_mul_norm_kernel_2 = async_compile.triton('triton_per_fused_mul_norm_kernel_2', '''
@triton_heuristics.persistent_reduction(size_hints={'x': 4})
def triton_per_fused_mul_norm_kernel_2(x): ...
''', device_str='cuda')
def call(args):
    norm_kernel_0.run(buf0, grid_0, stream=stream0)
    norm_kernel_0.run(buf1, grid_0, stream=stream0)
    triton_norm_1.run(buf1, grid_0, stream=stream0)
    triton_per_fused_mul_norm_kernel_2.run(buf1, 4, stream=stream0)
"""
"""As Inductor of torch 2.13 writes kernels of the model itself, one of which looks like its own."""


def test_kernels_that_the_model_launches_are_counted_by_their_exact_names() -> None:
    with compilation.watch_code() as watched:
        GraphLowering.save_output_code(OWN)
    columns = watched.columns
    assert (columns.generated_kernels, columns.own_kernels, columns.extern_calls) == (1, 3, 0)
    assert json.loads(columns.own_kernel_names or "") == ["norm_kernel", "triton_norm"]


def test_a_second_watch_has_its_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the model compiled a part of itself before."""
    monkeypatch.setattr(metrics, "num_bytes_accessed", 100)
    found = []
    for accessed in (3000, 20, 0):
        with compilation.watch_code() as watched:
            GraphLowering.save_output_code(DIRECT)
            metrics.num_bytes_accessed += accessed
        found.append(watched.columns.bytes_accessed)
    assert found == [3000, 20, None]
