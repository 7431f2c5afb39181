"""Files are read once: the cache gives equal tables and is ignored once it is outdated."""

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

from modescope.analysis import table
from modescope.analysis.load import cache, files, parallel, study
from modescope.analysis.load.run_stats import with_statistics
from modescope.analysis.load.samples import load
from tests.helpers import large_studies
from tests.helpers.pass_columns import cpu_passes, cuda_passes
from tests.helpers.paths import ROOT
from tests.helpers.studies import cpu_sweep, cuda_sweep, not_measured, record, replicates, save

pytestmark = pytest.mark.full

CONFIRMING = ("confirming_speedup", "confirming_speedup_ci_low", "confirming_speedup_ci_high")

FOLDER = cache.folder  # the user's folder, which no test writes to


@pytest.fixture(autouse=True)
def every_study_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "WORTH_CACHING", 1)


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """A study with every kind of row, which the test may change."""
    return shutil.copytree(template, tmp_path / "study")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study that `folder` copies."""
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


def computed(folder: Path) -> pd.DataFrame:
    """The table without the cache, of a study whose runs no further process confirmed."""
    runs = with_statistics(load(folder))
    return runs.assign(**dict.fromkeys(CONFIRMING, float("nan")))[study.read(folder).table.columns]


def test_the_table_of_a_study_is_computed_from_its_samples(folder: Path) -> None:
    same(study.read(folder).table, computed(folder))


def test_a_cached_study_is_equal_and_opens_no_file(folder: Path, opened: list[str]) -> None:
    first = study.read(folder).table
    assert len(opened) == len(first)
    opened.clear()
    same(study.read(folder).table, first)
    assert opened == []


def test_only_new_runs_are_read(folder: Path, opened: list[str]) -> None:
    study.read(folder)
    opened.clear()
    save([record("no_grad", run_id="new")], folder)
    assert "new" in set(study.read(folder).table["run_id"])
    assert opened == ["new.parquet"]
    opened.clear()
    study.read(folder)
    assert opened == []


def test_removed_runs_are_dropped(folder: Path, opened: list[str]) -> None:
    gone = study.read(folder).table["run_id"][0]
    (folder / "runs" / f"{gone}.parquet").unlink()
    opened.clear()
    left = study.read(folder).table
    assert gone not in set(left["run_id"])
    assert opened == []
    same(left, computed(folder))


def _another_time(path: Path) -> None:
    told = path.stat()
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns + 1))


def _another_size(path: Path) -> None:
    told = path.stat()
    path.write_bytes(path.read_bytes()[:-1])
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


@pytest.mark.parametrize("change", [_another_time, _another_size])
def test_changed_files_are_read_again(
    folder: Path, opened: list[str], change: Callable[[Path], None]
) -> None:
    study.read(folder)
    changed = min((folder / "runs").iterdir())
    change(changed)
    opened.clear()
    found = study.read(folder)
    assert opened == [changed.name]
    same(found.table, computed(folder))


def test_skipped_files_are_named_on_every_read(folder: Path) -> None:
    (folder / "runs" / "bad.parquet").touch()
    for _ in range(2):
        assert study.read(folder).left_out == {"bad.parquet": "is empty"}


def test_a_copy_is_named_on_every_read(folder: Path, opened: list[str]) -> None:
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
def test_an_invalid_cache_is_ignored(
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


def test_a_cache_of_another_reader_is_ignored(
    folder: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(study.read(folder).table)
    monkeypatch.setattr(cache, "reader", lambda: "another")
    opened.clear()
    study.read(folder)
    assert len(opened) == count


def test_the_reader_id_depends_on_its_source_and_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_source(name: str, analysis: str, bench: str = "") -> str:
        for package, text in (("analysis/load", analysis), ("bench/stats/deeper", bench)):
            (tmp_path / name / package).mkdir(parents=True)
            (tmp_path / name / package / "module.py").write_text(text)
        return cache.reader(tmp_path / name)

    digests = [with_source("a", "1"), with_source("b", "2"), with_source("c", "1", "3")]
    assert len(set(digests)) == 3
    assert with_source("d", "1") == digests[0]
    monkeypatch.setattr(cache, "version", lambda name: "0.0")
    assert with_source("e", "1") != digests[0]


def test_a_cache_of_another_study_is_ignored(
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


def test_reading_leaves_the_study_folder_unchanged(folder: Path) -> None:
    def contents() -> set[tuple[str, int]]:
        return {(str(path), path.stat().st_mtime_ns) for path in (folder, *folder.rglob("*"))}

    before = contents()
    study.read(folder)
    study.read(folder)
    assert contents() == before


def test_all_files_are_read_where_no_cache_can_be_written(
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


def test_concurrent_readers_read_the_same(folder: Path, opened: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = [one.table for one in pool.map(study.read, [folder] * 8)]
    for one in found[1:]:
        same(one, found[0])
    opened.clear()
    same(study.read(folder).table, found[0])
    assert opened == []


def test_parallel_processes_read_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "runs" / "empty.parquet").touch()
    monkeypatch.setattr(study, "_AT_ONCE", 20)
    monkeypatch.setattr(cache, "load", lambda study: None)
    here = study.read(folder)
    asked: list[bool] = []

    def spread(function: Any, pieces: Any, worth_it: bool) -> Any:
        asked.append(worth_it)
        return parallel.spread(function, pieces, worth_it)

    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    monkeypatch.setattr(study, "_WORTH_PROCESSES", 1)
    monkeypatch.setattr(study, "spread", spread)
    there = study.read(folder)
    assert asked == [True]
    same(there.table, here.table)
    assert there.left_out == here.left_out == {"empty.parquet": "is empty"}


def test_small_studies_are_not_cached(
    folder: Path, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "WORTH_CACHING", 1000)
    study.read(folder)
    assert list(caches.iterdir()) == []


def test_caches_of_removed_studies_are_deleted(folder: Path, caches: Path, tmp_path: Path) -> None:
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
def test_caches_are_in_the_users_cache_folder(variable: str, expected: str) -> None:
    code = "from modescope.analysis.load import cache; print(cache.folder())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "XDG_CACHE_HOME": variable},
    )  # fmt: skip
    assert done.stdout.strip() == str(Path(expected).expanduser())


def test_without_a_home_folder_all_files_are_read(
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


def test_leftovers_of_a_killed_writer_are_deleted_but_no_file_in_use(
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


def test_a_cache_file_that_disappears_does_not_prevent_caching(
    folder: Path, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (caches / "runs-0.arrow").symlink_to("gone")  # listed, and gone when it is opened
    study.read(folder)
    assert [path.name for path in caches.glob("runs-*.arrow") if path.is_file()]


def test_a_large_study_is_read_once_and_then_cached(
    tmp_path: Path, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    runs, cases = 240, 110
    folder = large_studies.study(tmp_path / "study", runs, cases, rounds=24)
    printed = []
    for read in (runs, 0):
        opened.clear()
        assert table.main([str(folder)]) == 0
        assert len(opened) == read
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert sum("×" in line for line in printed[0].splitlines()) >= 90
