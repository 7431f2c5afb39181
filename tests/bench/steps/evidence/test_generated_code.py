"""What is counted in the code for a GPU, as Inductor of torch 2.11 writes it."""

from __future__ import annotations

import pytest
from torch._inductor.graph import GraphLowering

from modescope.bench.steps.evidence import generated_code

pytestmark = pytest.mark.full

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
    with generated_code.watch() as watched:
        GraphLowering.save_output_code(code)
    assert watched.generated is not None
    columns = watched.generated.columns
    assert watched.generated.symbolic_sizes == 0
    assert (columns.generated_kernels, columns.extern_calls) == (2, 3)
    assert columns.fallback_kernels == '["aten._scaled_dot_product_flash_attention.default"]'
