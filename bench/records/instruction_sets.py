"""CPU instruction sets that change how fast torch runs. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable

BF16 = {"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16", "svebf16"}
"""Each multiplies or converts bf16 in hardware; without any, oneDNN gains nothing from bf16."""

FP16 = {"avx512_fp16", "amx_fp16", "asimdhp", "fphp"}

VECTORS = {
    *("avx", "avx2", "fma", "f16c"),
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512ifma"),
    *("avx512vbmi", "avx512_vbmi2", "avx512_bitalg", "avx512_vpopcntdq", "avx10"),
    *("asimd", "asimddp", "asimdfhm", "sve", "sve2", "sme", "sme2"),
}

DOT_PRODUCTS = {
    *("avx512_vnni", "avx_vnni", "avx_vnni_int8", "avx_vnni_int16"),
    *("amx_tile", "amx_int8", "i8mm", "svei8mm"),
}

MATTERING = BF16 | FP16 | VECTORS | DOT_PRODUCTS
"""Names of the Linux kernel (arch/*/include/asm/cpufeatures.h, hwcap.h) of the sets that oneDNN,
OpenBLAS, MKL and Inductor choose kernels by."""


def relevant(flags: Iterable[str]) -> str:
    """Those of `flags` that matter, in alphabetical order, with spaces between."""
    return " ".join(sorted(MATTERING & set(flags)))


def phrase(capability: str | None, instructions: str | None) -> str | None:
    """`AVX2, no bf16 instructions`: what a reader has to know; None where nothing is known."""
    named = [capability.upper()] if capability else []
    if instructions is not None:
        has = not BF16.isdisjoint(instructions.split())
        named.append("bf16 instructions" if has else "no bf16 instructions")
    return ", ".join(named) or None
