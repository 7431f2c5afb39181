from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from analysis import activations
from analysis.metrics import derived
from analysis.series import Series, series
from bench.records import Record
from tests.analysis.passes import cpu_training
from tests.analysis.studies import save, training

KIB = 1024


def _series(folder: Path, *records: Record) -> Series:
    (found,) = series(derived(save(records, folder)))
    return found


def _steps(mode: str, saved_bytes: Sequence[int | None]) -> list[Record]:
    sizes = [2**n for n in range(len(saved_bytes))]  # 1, 2, 4, ...
    return [
        training(mode, shape=f'{{"batch":{size}}}', batch=size, saved_activation_bytes=saved)
        for size, saved in zip(sizes, saved_bytes, strict=True)
    ]


def test_what_comes_with_the_batch_and_what_stays_are_told_apart(tmp_path: Path) -> None:
    (one,) = activations.saved(_series(tmp_path, *_steps("amp", (1300, 1600, 2200, 3400))))
    assert one.sizes == (1, 2, 4, 8)
    assert (one.per_unit_bytes, one.fixed_bytes, one.is_straight) == (300, 1000, True)


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        ((4 * KIB, 8 * KIB, 16 * KIB), "Saved for a backward per unit of batch: eager 4.00 KiB."),
        ((5 * KIB, 9 * KIB, 17 * KIB),
         "Saved for a backward per unit of batch: eager 4.00 KiB (and 1.00 KiB at any batch)."),
        ((4 * KIB, 9 * KIB, 16 * KIB),
         "Not in line with batch: eager (4.00 KiB at batch 1 and 16.0 KiB at batch 4)."),
        ((0, 0, 0), None),
        ((None, None, None), None),
        ((4 * KIB, None, 16 * KIB), None),  # two points have a line through them in any case
    ],
)  # fmt: skip
def test_what_is_saved_is_told_by_the_unit(
    tmp_path: Path, saved: tuple[int | None, ...], expected: str | None
) -> None:
    assert activations.reading(_series(tmp_path, *_steps("eager", saved))) == expected


def test_modes_that_save_nothing_are_named(tmp_path: Path) -> None:
    steps = [*_steps("eager", (10, 20, 40)), *_steps("no_grad", (0, 0, 0))]
    steps += _steps("compile", (None, None, None))
    told = activations.reading(_series(tmp_path, *steps))
    assert told == (
        "Saved for a backward per unit of batch: eager 10 B. Nothing is saved by: no_grad."
    )


def test_a_sweep_reads_as_planted(tmp_path: Path) -> None:
    records = [one for batch in (1, 8, 64) for one in cpu_training(batch)]
    assert activations.reading(_series(tmp_path, *records)) == (
        "Saved for a backward per unit of batch: eager fp32 640 KiB, amp bf16 320 KiB (and "
        "6.00 MiB at any batch), compile fp32 384 KiB, amp-compile bf16 200 KiB (and 6.00 MiB at "
        "any batch)."
    )


def test_options_of_training_are_series_of_their_own(tmp_path: Path) -> None:
    plain = [one for batch in (1, 8, 64) for one in cpu_training(batch)]
    again = [one for batch in (1, 8, 64) for one in cpu_training(batch, training='{"lr":0.1}')]
    rows = derived(save([*plain, *again], tmp_path))
    mixed = [part for _, part in rows.groupby("training")]
    assert [len(series(part)) for part in mixed] == [1, 1]
