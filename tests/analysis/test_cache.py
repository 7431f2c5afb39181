"""Files are read once: what was kept of them is the same, and never believed too long."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import cache, files, spreading, study, table
from analysis.answers import answered
from analysis.load import load
from tests.analysis import many
from tests.analysis.passes import cpu_passes, cuda_passes
from tests.analysis.studies import cpu_sweep, cuda_sweep, not_measured, record, replicates, save
from tests.commands import ROOT

FOLDER = cache.folder  # that of a user, which no test writes to


@pytest.fixture(autouse=True)
def every_run_is_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "WORTH_KEEPING", 1)


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """A study of all that rows can be, to be changed."""
    return shutil.copytree(template, tmp_path / "study")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study that each test has a copy of."""
    records = (
        *cpu_sweep(), *cuda_sweep(model="mlp"), *cpu_passes(),
        *cuda_passes(), *replicates(3, model="other"),
        not_measured("amp", "oom", "no room", model="large"),
        record(budget="smoke", rounds=3, flags=("drift",), model="short"),
    )  # fmt: skip
    return save(records, tmp_path_factory.mktemp("template"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read from now on."""
    names: list[str] = []
    whole = files.read

    def read(path: Path) -> Any:
        names.append(path.name)
        return whole(path)

    monkeypatch.setattr(files, "read", read)
    return names


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one, other)


def test_answers_are_those_of_the_samples(folder: Path) -> None:
    same(study.read(folder).table, answered(load(folder)))


def test_what_was_kept_is_what_was_read_and_no_file_is_opened(
    folder: Path, opened: list[str]
) -> None:
    first = study.read(folder).table
    assert len(opened) == len(first)
    opened.clear()
    same(study.read(folder).table, first)
    assert opened == []


def test_only_what_is_new_is_read(folder: Path, opened: list[str]) -> None:
    study.read(folder)
    opened.clear()
    save([record("no_grad", run_id="new")], folder)
    assert "new" in set(study.read(folder).table["run_id"])
    assert opened == ["new.parquet"]
    opened.clear()
    study.read(folder)
    assert opened == []


def test_what_is_gone_is_gone(folder: Path, opened: list[str]) -> None:
    gone = study.read(folder).table["run_id"][0]
    (folder / "runs" / f"{gone}.parquet").unlink()
    opened.clear()
    left = study.read(folder).table
    assert gone not in set(left["run_id"])
    assert opened == []
    same(left, answered(load(folder)))


def _another_time(path: Path) -> None:
    told = path.stat()
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns + 1))


def _another_size(path: Path) -> None:
    told = path.stat()
    path.write_bytes(path.read_bytes()[:-1])
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


@pytest.mark.parametrize("change", [_another_time, _another_size])
def test_what_changed_is_read_again(
    folder: Path, opened: list[str], change: Callable[[Path], None]
) -> None:
    study.read(folder)
    changed = min((folder / "runs").iterdir())
    change(changed)
    opened.clear()
    found = study.read(folder)
    assert opened == [changed.name]
    same(found.table, answered(load(folder)))


def test_what_is_left_out_is_named_every_time(folder: Path) -> None:
    (folder / "runs" / "bad.parquet").touch()
    for _ in range(2):
        assert study.read(folder).left_out == {"bad.parquet": "is empty"}


def test_a_copy_is_named_every_time(folder: Path, opened: list[str]) -> None:
    first = min((folder / "runs").iterdir())
    first.with_name("zzz.parquet").write_bytes(first.read_bytes())
    for _ in range(2):
        assert study.read(folder).left_out == {"zzz.parquet": f"is a copy of {first.name}"}
    assert opened.count("zzz.parquet") == 1


def _shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _flipped(place: float) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(place * (len(content) - 1))] ^= 1
        path.write_bytes(content)

    return flip


def _replaced(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def _by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [
        _shortened, *map(_flipped, (0.0, 0.005, 0.5, 0.999, 1.0)), _by_a_folder,
        *map(_replaced, (b"", b"\n", b"text", b"{}\nARROW1", os.urandom(1000))),
    ],
)  # fmt: skip
def test_a_spoiled_cache_is_as_good_as_none(
    folder: Path, caches: Path, opened: list[str], spoil: Callable[[Path], None]
) -> None:
    first = study.read(folder).table
    (kept,) = caches.iterdir()
    spoil(kept)
    opened.clear()
    same(study.read(folder).table, first)
    assert len(opened) == len(first)
    if kept.is_file():
        opened.clear()
        study.read(folder)
        assert opened == [], "it was not written anew"


def test_another_reader_believes_nothing(
    folder: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(study.read(folder).table)
    monkeypatch.setattr(cache, "reader", lambda: "another")
    opened.clear()
    study.read(folder)
    assert len(opened) == count


def test_a_reader_is_another_once_its_source_or_a_library_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_source(name: str, analysis: str, bench: str = "") -> str:
        for package, text in (("analysis", analysis), ("bench/deeper", bench)):
            (tmp_path / name / package).mkdir(parents=True)
            (tmp_path / name / package / "module.py").write_text(text)
        return cache.reader(tmp_path / name)

    digests = [with_source("a", "1"), with_source("b", "2"), with_source("c", "1", "3")]
    assert len(set(digests)) == 3
    assert with_source("d", "1") == digests[0]
    monkeypatch.setattr(cache, "version", lambda name: "0.0")
    assert with_source("e", "1") != digests[0]


def test_a_cache_of_another_study_is_not_believed(
    folder: Path, caches: Path, tmp_path: Path, opened: list[str]
) -> None:
    study.read(folder)
    (kept,) = caches.iterdir()
    other = save([record("no_grad")], tmp_path / "other")
    study.read(other)
    (others,) = set(caches.iterdir()) - {kept}
    others.write_bytes(kept.read_bytes())
    opened.clear()
    assert list(study.read(other).table["mode"]) == ["no_grad"]
    assert len(opened) == 1


def test_a_study_is_left_as_it_was(folder: Path) -> None:
    def contents() -> set[tuple[str, int]]:
        return {(str(path), path.stat().st_mtime_ns) for path in (folder, *folder.rglob("*"))}

    before = contents()
    study.read(folder)
    study.read(folder)
    assert contents() == before


def test_where_nothing_can_be_kept_everything_is_read(
    folder: Path, caches: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (caches / "file").touch()
    monkeypatch.setattr(cache, "folder", lambda: caches / "file" / "folder")
    first = study.read(folder).table
    same(study.read(folder).table, first)
    assert len(opened) == 2 * len(first)


def test_a_cache_that_cannot_be_completed_leaves_nothing(
    folder: Path, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refused)
    assert len(study.read(folder).table)
    assert list(caches.iterdir()) == []


def test_readers_at_the_same_time_read_the_same(folder: Path, opened: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = [one.table for one in pool.map(study.read, [folder] * 8)]
    for one in found[1:]:
        same(one, found[0])
    opened.clear()
    same(study.read(folder).table, found[0])
    assert opened == []


def test_processes_read_what_this_one_reads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "runs" / "empty.parquet").touch()
    monkeypatch.setattr(study, "_AT_ONCE", 20)
    monkeypatch.setattr(cache, "kept", lambda study: None)
    here = study.read(folder)
    asked: list[bool] = []

    def spread(function: Any, pieces: Any, worth_it: bool) -> Any:
        asked.append(worth_it)
        return spreading.spread(function, pieces, worth_it)

    monkeypatch.setattr(spreading, "usable_cores", lambda: 2)
    monkeypatch.setattr(study, "_WORTH_PROCESSES", 1)
    monkeypatch.setattr(study, "spread", spread)
    there = study.read(folder)
    assert asked == [True]
    same(there.table, here.table)
    assert there.left_out == here.left_out == {"empty.parquet": "is empty"}


def test_few_runs_are_not_kept(folder: Path, caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "WORTH_KEEPING", 1000)
    study.read(folder)
    assert list(caches.iterdir()) == []


def test_what_was_kept_of_a_study_that_is_gone_is_removed(
    folder: Path, caches: Path, tmp_path: Path
) -> None:
    other = save([record()], tmp_path / "other")
    study.read(other)
    (others,) = caches.iterdir()
    study.read(folder)
    assert others.exists()
    for path in (*(other / "runs").iterdir(), other / "runs", other):
        path.rmdir() if path.is_dir() else path.unlink()
    study.read(save([record()], tmp_path / "third"))
    assert not others.exists()


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("/somewhere", "/somewhere/modescope"),
        ("", "~/.cache/modescope"),
        ("no", "~/.cache/modescope"),
    ],
)
def test_caches_lie_where_a_user_keeps_caches(variable: str, expected: str) -> None:
    code = "from analysis import cache; print(cache.folder())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "XDG_CACHE_HOME": variable},
    )  # fmt: skip
    assert done.stdout.strip() == str(Path(expected).expanduser())


def test_a_user_without_a_home_folder_reads_everything(
    folder: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_entry(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(cache, "folder", FOLDER)
    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    first = study.read(folder).table
    same(study.read(folder).table, first)
    assert len(opened) == 2 * len(first)


def test_what_a_killed_writer_left_is_removed_and_what_is_being_written_is_not(
    folder: Path, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        patched.setattr(os, "unlink", killed)
        study.read(folder)
    (left,) = caches.iterdir()
    study.read(folder)
    assert left.exists()
    os.utime(left, (0, 0))
    (next(path for path in caches.iterdir() if path != left)).unlink()
    study.read(folder)
    assert not left.exists()
    assert len(list(caches.iterdir())) == 1


def test_a_cache_that_vanishes_meanwhile_keeps_nothing_from_being_kept(
    folder: Path, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (caches / "runs-0.arrow").symlink_to("gone")  # found, and not there to be opened
    study.read(folder)
    assert [path.name for path in caches.glob("runs-*.arrow") if path.is_file()]


def test_a_large_study_is_read_once(
    tmp_path: Path, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    runs, cases = 240, 110
    folder = many.study(tmp_path / "study", runs, cases, rounds=24)
    printed = []
    for read in (runs, 0):
        opened.clear()
        assert table.main([str(folder)]) == 0
        assert len(opened) == read
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert sum("×" in line for line in printed[0].splitlines()) >= 90
