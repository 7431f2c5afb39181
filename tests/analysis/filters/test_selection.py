"""`--where`: the rows that an expression keeps, and the error of an invalid one."""

from __future__ import annotations

import pandas as pd
import pytest

from modescope.analysis.filters.selection import Selection, select
from modescope.analysis.metrics.registry import derived
from modescope.bench.records.errors import UsageError
from tests.helpers.studies import not_measured, record, save

MODES = ("eager", "no_grad", "amp", "compile", "max-autotune", "cuda-graph")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Six rows of different modes; the last one was skipped, so its measured columns are null."""
    records = [
        record("eager", speedup=1.0, batch=1),
        record("no_grad", speedup=1.02, batch=8, flags=("drift",)),
        record("amp", speedup=2.0, batch=64, error=3e-3, flags=("drift", "contended")),
        record("compile", speedup=1.3, batch=8, graph_breaks=2, fullgraph=False),
        record("max-autotune", speedup=1.4, batch=8, graph_breaks=0, in_effect=False),
        not_measured("cuda-graph", "skipped", "no GPU", batch=None, error=None),
    ]
    return derived(save(records, tmp_path_factory.mktemp("study")))


def kept(rows: pd.DataFrame, expression: str) -> list[str]:
    found = set(select(rows, expression).rows["mode"])
    return [mode for mode in MODES if mode in found]


FLAGGED = ["no_grad", "amp"]
NOT_FLAGGED = ["eager", "compile", "max-autotune", "cuda-graph"]
MEASURED = ["eager", "no_grad", "amp", "compile", "max-autotune"]


@pytest.mark.parametrize(
    ("expression", "modes"),
    [
        # flags, in every notation
        ('flags == "contended"', ["amp"]),
        ('"contended" in flags', ["amp"]),
        ('flags.str.contains("contended")', ["amp"]),
        ('flags.str.contains("contended", na=False)', ["amp"]),
        ('flags.str.contains("drift|contended")', FLAGGED),
        ('flags in ["contended", "drift"]', FLAGGED),
        ('flags == "drift"', FLAGGED),
        ('flags == "contended;drift"', ["amp"]),  # as --csv prints them, in any order
        ('flags == ""', NOT_FLAGGED),
        ('flags != "drift"', NOT_FLAGGED),
        ('"drift" not in flags', NOT_FLAGGED),
        ('not "drift" in flags', NOT_FLAGGED),
        ('~flags.str.contains("drift")', NOT_FLAGGED),
        ("flags", FLAGGED),
        ("not flags", NOT_FLAGGED),
        ("flags is null", NOT_FLAGGED),
        # text
        ('mode == "compile"', ["compile"]),
        ("'compile' == mode", ["compile"]),
        ('mode in ["compile", "eager"]', ["eager", "compile"]),
        ('mode == ["compile", "eager"]', ["eager", "compile"]),
        ('mode not in ("compile", "eager")', ["no_grad", "amp", "max-autotune", "cuda-graph"]),
        ('mode.str.startswith("max")', ["max-autotune"]),
        ('mode.str.endswith("graph")', ["cuda-graph"]),
        ('mode.str.endswith("ap.")', []),  # not a regular expression
        ('mode.str.contains("GRAD", case=False)', ["no_grad"]),
        ('mode.str.fullmatch("e.*")', ["eager"]),
        ('"graph" in mode', ["cuda-graph"]),
        ("mode == baseline_mode and dtype == baseline_dtype", ["eager"]),
        ('compile == "none" and graph == false', ["eager", "no_grad", "amp"]),
        # numbers, known and unknown
        ("speedup > 1.1", ["amp", "compile", "max-autotune"]),
        ("1.1 < speedup", ["amp", "compile", "max-autotune"]),
        ("1.01 < speedup <= 1.35", ["no_grad", "compile"]),
        ("speedup.between(1.01, 1.35)", ["no_grad", "compile"]),
        ("not speedup > 1.1", ["eager", "no_grad", "cuda-graph"]),
        ("speedup <= 1.1", ["eager", "no_grad"]),
        ("speedup.isna()", ["cuda-graph"]),
        ("speedup is null", ["cuda-graph"]),
        ("speedup == None", ["cuda-graph"]),
        ("speedup != speedup", ["cuda-graph"]),
        ("speedup is not null", MEASURED),
        ("speedup.notna()", MEASURED),
        ("batch == 8", ["no_grad", "compile", "max-autotune"]),
        ("batch != 8", ["eager", "amp", "cuda-graph"]),
        ("batch in [1, 64]", ["eager", "amp"]),
        ("abs(speedup - 1) < 0.01", ["eager"]),
        ("-speedup < -1.35", ["amp", "max-autotune"]),
        ("error > 10 * baseline_error", ["amp"]),
        ("error / baseline_error > 10", ["amp"]),
        ("graph_breaks > 0", ["compile"]),
        ('compile != "none" and graph_breaks > 0', ["compile"]),
        ("graph_breaks == 0", ["max-autotune"]),
        ("break_even_calls > 1e9", []),
        # true, false and unknown
        ("in_effect", ["eager", "no_grad", "amp", "compile"]),
        ("in_effect == true", ["eager", "no_grad", "amp", "compile"]),
        ("in_effect == False", ["max-autotune"]),
        ("in_effect == 0", ["max-autotune"]),
        ("not in_effect", ["max-autotune", "cuda-graph"]),
        ("in_effect.isna()", ["cuda-graph"]),
        ("not fullgraph", ["compile"]),
        # operands swapped, and other notations
        ("null == speedup", ["cuda-graph"]),
        ("None != speedup", MEASURED),
        ("in_effect is null", ["cuda-graph"]),
        ("in_effect is true", ["eager", "no_grad", "amp", "compile"]),
        ("in_effect is not True", ["max-autotune", "cuda-graph"]),
        ('mode is "compile"', ["compile"]),
        ('mode in {"compile", "eager"}', ["eager", "compile"]),
        ("speedup * 2 is null", ["cuda-graph"]),
        ("break_even_calls < inf", ["compile"]),
        ("speedup / 0 == inf", MEASURED),
        ("-speedup > -inf", MEASURED),
        ('["compile", "amp"] in mode', ["amp", "compile"]),
        ('["graph", "auto"] in mode', ["max-autotune", "cuda-graph"]),
        ('["graph", "auto"] not in mode', ["eager", "no_grad", "amp", "compile"]),
        ('["drift", "contended"] in flags', FLAGGED),
        ('flags.str.contains("DRIFT")', []),
        ('flags.str.contains("DRIFT", case=False)', FLAGGED),
        ('flags.str.contains("drift|contended", regex=False)', []),
        ('flags.str.startswith("cont")', ["amp"]),
        ('mode.str.contains("e.g", regex=False)', []),
        ('reason.str.contains("GPU")', ["cuda-graph"]),
        ('reason.str.contains("GPU", na=True)', list(MODES)),
        ('mode.str.upper() == "COMPILE"', ["compile"]),
        ("mode.str.len() < 4", ["amp"]),
        ('mode >= "max" and mode < "n"', ["max-autotune"]),
        ('dtype.isin(["bf16"])', ["amp"]),
        ("log(speedup - 1) > -1 or log(speedup - 1) == -inf", ["eager", "amp", "max-autotune"]),
        ("speedup>1and batch==64", ["amp"]),
        ("(speedup > 1.1) == (batch == 8)", ["eager", "compile", "max-autotune", "cuda-graph"]),
        ("graph_breaks / graph_breaks > 0", ["compile"]),
        # joined
        ('verdict == "faster" and speedup > 1.35', ["amp", "max-autotune"]),
        ('speedup > 1.35 & verdict == "faster"', ["amp", "max-autotune"]),
        ('(mode == "amp") | (batch == 1)', ["eager", "amp"]),
        ('mode == "amp" or batch == 1 and mode == "eager"', ["eager", "amp"]),
        ('mode == "a&b|c" or batch == 1', ["eager"]),
        ('started_at > "2020"', list(MODES)),
        ("  batch\n== 1 ", ["eager"]),
    ],
)
def test_an_expression_selects_rows(rows: pd.DataFrame, expression: str, modes: list[str]) -> None:
    assert kept(rows, expression) == modes


def test_unknown_values_are_not_equal(rows: pd.DataFrame) -> None:
    without = rows.assign(mode=None, baseline_mode=None)
    assert select(without, "mode == baseline_mode").rows.empty
    assert len(select(without, "mode != baseline_mode").rows) == len(rows)


@pytest.mark.parametrize(
    ("expression", "meant"),
    [
        ("mode == compile", "in mode == compile, compile is itself a column"),
        ("mode == compile", """--where 'mode == "compile"'"""),
        ("mode == eager", """eager is not a column; put quotes around text: --where 'mode"""),
        ("mode == max-autotune", """--where 'mode == "max-autotune"'"""),
        ("compile == none", """--where 'compile == "none"'"""),
        ("phase == training", """training is itself a column; put quotes around text"""),
        ("flags == contended", """--where 'flags == "contended"'"""),
        ("contended in flags", """--where '"contended" in flags'"""),
        ("mode in [compile, eager]", """--where 'mode in ["compile", "eager"]'"""),
        ("mode == amp and dtype == fp32", """--where 'mode == "amp" and dtype == "fp32"'"""),
        ("mode.str.lower() == compile", """'mode.str.lower() == "compile"'"""),
        ("mode < compile", """--where 'mode < "compile"'"""),
        ("[amp, compile] in mode", """--where '["amp", "compile"] in mode'"""),
        ("model == 'mlp' and mode == amp", """--where 'model == "mlp" and mode == "amp"'"""),
    ],
)  # fmt: skip
def test_text_without_quotes_is_an_error_with_a_suggestion(
    rows: pd.DataFrame, expression: str, meant: str
) -> None:
    with pytest.raises(UsageError) as caught:
        select(rows, expression)
    assert meant in str(caught.value)
    fixed = str(caught.value).partition("put quotes around text: --where '")[2].removesuffix("'")
    select(rows, fixed)  # a valid value


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("mod == 'x'", "no column is called mod; did you mean mode?"),
        ("speeedup > 1", "did you mean speedup?"),
        ("shape.batch == 8", "shape.batch is not a column; did you mean batch?"),
        ("speedup > 'x'", "speedup is a number; compare it with a number, without quotes"),
        ('batch == "8"', "without quotes"),
        ("mode == 1", "mode is text; compare it with text in quotes"),
        ("in_effect == 2", "write in_effect or not in_effect"),
        ('graph == "true"', "write graph or not graph"),
        ("flags > 1", 'write "name" in flags'),
        ("started_at > 2026-11-20", "compare it with text in quotes"),
        ("1", "1 is not a condition; compare a column"),
        ("mode", "mode is not a condition; compare a column"),
        ("speedup", "in quotes, or the shell takes > as a redirection"),
        ("true", "true is not a condition; compare a column"),
        ("1 == 1", "it names no column"),
        ('"a" in "b"', "it names no column"),
        ("mode ==", "syntax error"),
        ("", "the expression is empty"),
        ("  ", "the expression is empty"),
        ('mode = "compile"', "write == for equal"),
        ('mode == "amp" && speedup > 1', "write and, or and not"),
        ("speedup > 1 AND batch == 8", "in lower case"),
        ("device_clock_hz > 1", "is a list of readings, which --where cannot compare"),
        ("mode + 1 > 2", "in mode + 1, mode is text, but must be a number"),
        ("mode.lower() == 'x'", "mode.lower is not supported; mode is text, and the methods"),
        ("speedup.str.contains('1')", "not supported; speedup is a number"),
        ("mode.str.contains('(')", "'(' is not a regular expression (missing ), unterminated"),
        ("mode.str.contains(dtype)", "mode.str.contains takes one text in quotes"),
        ("batch in [seq]", "a list may hold numbers or text, not seq; compare with == seq"),
        ("open('/etc/passwd')", "the functions are abs, sqrt"),
        ("mode.__class__", "mode.__class__ is not a condition"),
        ("lambda: 1", "lambda: 1 is not a condition"),
        ("[x for x in flags]", "is not a condition"),
        ("@mode", "syntax error"),
        (f"speedup > {'9' * 400}", "too large"),
        (f"{'(' * 300}speedup{')' * 300} > 1", "syntax error"),
        (f"speedup > 1{' + 1' * 4000}", "it is nested too deeply"),
        # expressions that pandas accepts and that are not conditions
        ("abs(speedup - 1)", "abs(speedup - 1) is not a condition"),
        ("mode.str.len()", "mode.str.len() is not a condition"),
        ("mode.str.lower()", "mode.str.lower() is not a condition"),
        ("speedup > 1 and batch", "batch is not a condition"),
        ("speedup.sum()", "speedup.sum is not supported"),
        ("in_effect.any()", "in_effect.any is not supported"),
        ("speedup.dropna() > 0", "speedup.dropna is not supported"),
        ("speedup.head(3) > 0", "speedup.head is not supported"),
        ("speedup if in_effect else batch", "is not a condition"),
        # null
        ("speedup > null", "write speedup is null or speedup is not null"),
        ("speedup < None", "write speedup is null or speedup is not null"),
        ("null >= speedup", "write speedup is null or speedup is not null"),
        ("speedup in null", "write speedup is null or speedup is not null"),
        ("speedup in [1, null]", "not null; compare with is null instead"),
        ("speedup + null > 1", "null is null, but must be a number"),
        ("1 < speedup < null", "write speedup is null"),
        # options of methods
        ('flags.str.contains("drift", flags=2)', "case=True or False, na="),
        ('flags.str.contains("drift", False)', "flags.str.contains takes one text"),
        ('mode.str.startswith("a", case=False)', "takes one text in quotes, na=True or False"),
        ('mode.str.contains("a", case=in_effect)', "case=True or False"),
        ("speedup.isna(1)", "speedup.isna takes no values"),
        ("speedup.between(1)", "speedup.between takes 2 values"),
        ("abs() > 1", "abs takes 1 value"),
        # text, and values of other types
        ('mode + "" == compile', "mode is text, but must be a number"),
        ("in_effect == compile", "in_effect is true or false and compile is text"),
        ("compile == in_effect", "compile is text and in_effect is true or false"),
        ("mode == speedup", "mode is text and speedup is a number"),
        ("mode == true", "mode is text; compare it with text in quotes"),
        ("speedup == true", "speedup is a number; compare it with a number"),
        ("flags == true", 'flags is a list of names; write "name" in flags'),
        ("flags == 1", 'flags is a list of names; write "name" in flags'),
        ('in_effect > "a"', "in_effect is true or false; write in_effect or not in_effect"),
        ('"mode" == "compile"', '"mode" in quotes is text; write mode'),
        ('"amp" == "mode"', '"mode" in quotes is text; write mode'),
        ('"contended" in "flags"', '"flags" in quotes is text; write flags'),
        ("2 > 1 and speedup > 1", "it names no column"),
        # lists
        ("mode in [baseline_mode]", "not baseline_mode; compare with == baseline_mode"),
        ("threads in (1)", "in needs a list in square brackets on its right; write threads in [1]"),
        ('mode in "compile"', 'write mode in ["compile"]'),
        ('flags in "drift"', 'write "name" in flags'),
        ("mode in compile", "write mode in [compile]"),
        ("batch in []", "the list is empty"),
        ("batch > [1, 8]", "a list has no order"),
        ("batch in [1, 'x']", "batch is a number; compare it with a number"),
        ('[["a"]] == mode', "a list may hold numbers or text"),
        # signs
        ("~speedup > 1.1", "speedup is not a condition; compare a column"),
        ("speedup => 1", "write >= for at least"),
        ("speedup =< 1", "write >= for at least"),
        ("mode <> 'compile'", "write != for unequal"),
        ("mode == “compile”", 'write " on both sides of text'),
        ("speedup > 1 / 0", "division by zero"),
        ("speedup > (-1) ** 0.5", "(-1) ** 0.5 is not a real number"),
    ],
)
def test_an_invalid_expression_is_one_sentence(
    rows: pd.DataFrame, expression: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        select(rows, expression)
    if len(expression) < 200:
        assert str(caught.value).startswith(f"--where {expression!r}: ")
    assert len(str(caught.value)) < 600
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "note"),
    [
        ('mode == "compil"', 'no row has mode "compil"; there are amp, compile, cuda-graph, eager'),
        ('mode != "compil"', 'no row has mode "compil"'),
        ('mode in ["compil", "eager"]', 'no row has mode "compil"'),
        ('flags == "contendd"', 'no row has flags "contendd"; there are contended, drift'),
        ('"throttled" in flags', 'no row has flags "throttled"; there are contended, drift'),
        ('training == "{}"', "training is unknown (null) in every row"),
        ("device_s > 0", "device_s is unknown (null) in every row"),
        ('"xyz" in mode', 'no row has "xyz" in mode; there are amp, compile, cuda-graph'),
        ('mode.str.contains("zzz")', 'mode.str.contains("zzz") holds in no row; there are amp,'),
        ('flags.str.contains("zzz")', "holds in no row; there are contended, drift"),
        ('model == "mlp"', 'no row has model "mlp"; there is transformer'),
    ],
)
def test_a_name_or_a_value_that_no_row_has_is_noted(
    rows: pd.DataFrame, expression: str, note: str
) -> None:
    (said,) = select(rows, expression).notes
    assert note in said


def test_a_value_that_some_row_has_is_not_noted(rows: pd.DataFrame) -> None:
    assert select(rows, 'mode == "amp" and "drift" in flags and speedup > 9').notes == ()
    for expression in ('started_at > "2020"', 'mode < "b"', 'mode.str.upper() == "AMP"'):
        assert select(rows, expression).notes == ()


def test_the_nearest_of_many_values_are_named(rows: pd.DataFrame) -> None:
    many = pd.concat([rows.head(1).assign(run_id=f"run-{n}") for n in range(30)])
    (note,) = select(many, 'run_id == "run-1x"').notes
    assert note == 'no row has run_id "run-1x"; the nearest are run-1, run-21, run-19'


def test_the_number_of_matching_rows_is_stated(rows: pd.DataFrame) -> None:
    assert select(rows, "batch == 3").count == "0 of 6 rows match --where 'batch == 3'"
    one: Selection = select(rows.head(1), "batch == 3")
    assert one.count == "0 of 1 row matches --where 'batch == 3'"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "expression", ["log(speedup - 1) > 0", "speedup>1and batch==1", 'mode.str.contains("a\\.b")']
)
def test_python_prints_no_warning_of_its_own(rows: pd.DataFrame, expression: str) -> None:
    select(rows, expression)


def test_a_long_expression_is_shortened(rows: pd.DataFrame) -> None:
    said = select(rows, " or ".join(["batch == 3"] * 100)).count
    assert said.startswith("0 of 6 rows match --where 'batch == 3 or batch == 3")
    assert len(said) < 250


def test_a_table_without_rows_keeps_none(rows: pd.DataFrame) -> None:
    assert select(rows.head(0), 'mode == "amp" and speedup > 1 and flags').rows.empty
