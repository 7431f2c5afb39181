"""`python -m analysis.why`: the causes of each row, and the mistakes of those who type it."""

from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis.why import command
from tests.helpers.causes import profiled
from tests.helpers.studies import not_measured, record, save


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Amp with casts; compile with kernels that remain; rows without causes."""
    casts = profiled(1e-3, ("aten::_to_copy", 24, 820e-6))
    left = profiled(100e-6, ("aten::addmm", 4, 80e-6))
    return save(
        [
            record("eager", speedup=1.0, spread=0.002),
            record("inference_mode", speedup=1.25),
            record("no_grad", speedup=0.9, spread=0.002),
            record("amp", speedup=1 / 5.3, **casts),
            record("compile", speedup=1.0, spread=0.002, first_call_s=9.0, **left),
            record("max-autotune", budget="smoke"),
            not_measured("cuda-graph", "skipped", "it needs a GPU"),
        ],
        tmp_path_factory.mktemp("why"),
    )


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command.main(arguments) == 0
    return capsys.readouterr().out


def test_chosen_rows_are_still_compared_with_the_others(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _printed(capsys, str(study), "--where", 'mode == "eager"')
    assert "[grad_left_on] eager is the baseline" in text  # by inference_mode, which is left out
    assert "amp" not in text
    assert _printed(capsys, str(study), "--where", 'mode == "no_grad" and speedup > 9') == (
        "0 of 7 rows match --where 'mode == \"no_grad\" and speedup > 9'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("results/nowhere",), "no study at results/nowhere"),
        (("--where",), "--where"),
        (("--calls", "3"), "unknown option --calls"),
    ],
)
def test_mistakes_end_with_a_sentence_and_status_2(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    errors = capsys.readouterr().err
    assert expected in errors
    assert errors.count("\n") == 1
