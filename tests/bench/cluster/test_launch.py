"""`cluster=` on the command line: what is refused before anything is submitted, and a dry run."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modescope.bench.cluster import cases, gpus, launch, target
from modescope.bench.cluster import local_engine as local
from modescope.bench.cluster import slurm_engine as slurm
from modescope.bench.cluster.local_engine import Local, slots
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.sweep import PACKAGES
from tests.helpers.commands import TINY, Ask, Cli, rows
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.full

SLURM = [*TINY, "-m", "cluster=slurm", "mode=eager,no_grad"]
RAY = [*TINY, "-m", "cluster=ray", "mode=eager,no_grad"]
LOCAL = [*TINY, "-m", "cluster=gpus", "mode=eager,no_grad"]

Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages of every engine count as installed."""
    find = importlib.util.find_spec
    packages = {*PACKAGES.values()}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: name in packages or find(name, *rest)
    )


@pytest.fixture
def refused(cli: Cli, results: Path, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """The sentence by which a command is refused; nothing is submitted, no folder of jobs made."""
    for engine in (slurm.Slurm, Local):
        monkeypatch.setattr(engine, "submit", lambda *arguments: pytest.fail("submitted"))
    monkeypatch.setattr(slurm, "check", lambda: None)
    monkeypatch.setattr(launch, "check", lambda: None)

    def call(*arguments: str) -> str:
        answer = cli(*arguments)
        assert answer.status == 2, answer
        assert not (results / "main" / "jobs").exists()
        return answer.err.removeprefix("error: ").strip()

    return call


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*SLURM, "device=cuda"],
         "device=cuda: no GPU is asked for; add cluster.gpus_per_node=1, or use device=cpu"),
        (
            [*LOCAL, "device=cuda"],
            "device=cuda: no GPU is asked for; add cluster.gpus=all, or use device=cpu"
        ),
        (
            [*RAY, "device=cuda"],
            "device=cuda: no GPU is asked for; add cluster.remote.num_gpus=1, or use "
            "device=cpu"
        ),
        (
            [*SLURM, "device=tpu"], "device=tpu: allowed are auto, cpu, cuda and cuda:<index>"
        ),
        (
            [*SLURM, "shape.ops=0"], "shape.ops=0: must be a whole number from 1 to 2147483647"
        ),
        ([*SLURM, "threads=4", "cluster.cpus_per_task=2"],
         "threads=4: a worker gets cluster.cpus_per_task=2 cores; leave that out, or set it "
         "to 4 or more"),
        ([*SLURM, "cluster.timeout_min=10"],
         "cluster.timeout_min=10: a case may take timeout_s=600, a signal comes "
         "signal_delay_s=120 before the end, and a worker needs up to 5 minutes beside that; set "
         "cluster.timeout_min=17 or more, or a smaller timeout_s"),
        (
            [*SLURM, "cluster.timeout_min=15", "cluster.signal_delay_s=30"],
            "cluster.timeout_min=15: a case may take timeout_s=600, a signal comes "
            "signal_delay_s=30 before the end, and a worker needs up to 5 minutes beside that; set "
            "cluster.timeout_min=16 or more"
        ),
        ([*LOCAL, "cluster.timeout_min=14"],
         "cluster.timeout_min=14: a case may take timeout_s=600, and a worker needs up to 5 "
         "minutes beside that; set cluster.timeout_min=15 or more"),
        ([*LOCAL, "cluster.mem_gb=4"], "cluster.mem_gb=4: no such key"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_before_anything_is_submitted(
    refused: Refused, arguments: list[str], sentence: str
) -> None:
    assert refused(*arguments).startswith(sentence)


def test_all_gpus_of_a_machine_without_any_are_refused(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "_visible", list)
    assert refused(*LOCAL, "cluster.gpus=all").startswith(
        "cluster.gpus=all: neither NVML nor nvidia-smi finds a GPU here"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["threads=4", "cluster.gpus=all"],
         "threads=4: 8 GPUs share 16 cores, so the worker of each gets 2; set threads=2 or less, "
         "or cluster.workers=4"),
        (["threads=32", "cluster.gpus=all"],
         "threads=32: 8 GPUs share 16 cores, so the worker of each gets 2; set threads=2 or less"),
        (["threads=32", "cluster.gpus=[0]"],
         "threads=32: this process may use 16 cores; set threads=16 or less"),
        (["threads=32"], "threads=32: this process may use 16 cores; set threads=16 or less"),
    ],
)  # fmt: skip
def test_more_threads_than_a_gpus_share_of_the_cores_are_refused(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, options: list[str], sentence: str
) -> None:
    monkeypatch.setattr(gpus, "_visible", lambda: [f"GPU-{number}" for number in range(8)])
    monkeypatch.setattr(local, "which_cores", lambda: list(range(16)))
    assert refused(*LOCAL, *options) == sentence


def test_fewer_workers_have_larger_shares_of_the_cores(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "_visible", lambda: [f"GPU-{number}" for number in range(8)])
    monkeypatch.setattr(local, "which_cores", lambda: list(range(16)))
    options = ["threads=4", "cluster.gpus=all", "cluster.workers=4", "replicates=4"]
    answer = cli(*LOCAL, *options, "dry_run=true")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("would start 4 workers on this machine, for 8 cases")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (SLURM,
         "cluster=slurm: submitit is not installed; pip install -e '.[slurm]'"),
        (RAY, "cluster=ray: ray is not installed; pip install -e '.[ray]'"),
    ],
)  # fmt: skip
def test_without_the_extra_one_sentence_names_the_pip_command(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name in ("submitit", "ray") else find(name, *rest),
    )
    assert refused(*arguments) == sentence


@pytest.mark.parametrize("name", PACKAGES)
def test_every_extra_of_an_engine_is_one_of_the_project(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = project["optional-dependencies"][name]
    assert any(each.startswith(PACKAGES[name]) for each in listed)


def test_a_dry_run_says_what_would_be_submitted(cli: Cli, results: Path) -> None:
    options = ["cluster.partition=gpu", "cluster.gpus_per_node=1", "replicates=3"]
    answer = cli(*SLURM, *options, "dry_run=true")
    assert (answer.status, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == (
        f"would start 6 workers of Slurm (partition gpu), for 6 cases → {results / 'main'}; "
        "nothing was submitted"
    )
    assert "  slurm_partition: gpu" in lines
    assert "  gpus_per_node: 1" in lines
    assert not any("exclusive" in line for line in lines)
    assert sum("mode=no_grad" in line for line in lines) == 1
    assert not (results / "main" / "jobs").exists()


def test_a_dry_run_on_ray_says_what_a_worker_asks_for(cli: Cli, results: Path) -> None:
    options = ["cluster.init.address=auto", "cluster.remote.num_gpus=1"]
    answer = cli(*RAY, *options, "+cluster.remote.runtime_env={}", "dry_run=true")
    assert (answer.status, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].startswith("would start 2 workers of Ray, for 2 cases → ")
    shown = {line.strip() for line in lines if line.startswith("  ")}
    assert shown >= {"address: auto", "num_gpus: 1", "num_cpus: 1"}
    assert not (results / "main" / "jobs").exists()


@pytest.mark.parametrize(
    ("options", "device"),
    [
        ([], "cpu"),
        (["cluster.gpus_per_node=1"], "cuda"),
        (["cluster.gres='gpu:a100:1'"], "cuda"),
        (["+cluster.additional_parameters={gpus: 2}"], "cuda"),
        (["cluster.gpus_per_task=1", "device=cpu"], "cpu"),
        (["cluster.gpus_per_task=1", "device=cuda:1"], "cuda:1"),
    ],
)
def test_the_device_follows_from_the_gpus_asked_for(
    ask: Ask, options: list[str], device: str
) -> None:
    requests = ask(*SLURM, *options)
    pinned, _ = target.checked(requests, target.asks_for_gpus(requests[0].settings.cluster))
    assert {request.settings.device for request in pinned} == {device}


def test_a_request_survives_its_journey(ask: Ask) -> None:
    for request in ask("-m", "mode=eager,compile", "+model.kwargs={width: 8}", "model=mlp"):
        sent = json.loads(json.dumps(cases.as_json(request)))
        bare = replace(request, settings=replace(request.settings, cluster={}))
        assert cases.from_json(sent) == bare


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        (["cluster.gpus_per_node=1"], "1"),
        (["cluster.gpus_per_node=4"], "4"),
        (["cluster.gres='gpu:a100:2'"], "2"),
        (["cluster.gres='gpu'"], "1"),
        (["cluster.gpus_per_node=4", "cluster.tasks_per_node=2"], "2"),
        (["cluster.gpus_per_node=2", "device=cuda:1"], "1"),
    ],
)
def test_each_gpu_of_a_node_has_a_worker(options: list[str], tasks: str, cli: Cli) -> None:
    answer = cli(*SLURM, *options, "replicates=6", "dry_run=true")
    assert answer.out.startswith("would start 8 workers of Slurm, for 12 cases")
    assert f"  tasks_per_node: {tasks}" in answer.out.splitlines()


def test_slots_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "physical_cores", lambda cores: [[core] for core in cores])
    monkeypatch.setattr(local, "which_cores", lambda: [0, 1, 2, 3, 6])
    assert [slot.cores for slot in slots(["a", "b"])] == [(0, 1), (2, 3)]
    assert [slot.cores for slot in slots([])] == [(0, 1, 2, 3, 6)]
    assert all(slot.cores for slot in slots(list("abcdefg")))


def test_slots_share_no_physical_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six cores of two threads each, numbered as Linux does."""
    monkeypatch.setattr(local, "which_cores", lambda: list(range(12)))
    monkeypatch.setattr(local, "physical_cores", lambda cores: [[n, n + 6] for n in range(6)])
    two, four, eight = ([slot.cores for slot in slots("abcdefgh"[:count])] for count in (2, 4, 8))
    assert two == [(0, 6, 1, 7, 2, 8), (3, 9, 4, 10, 5, 11)]
    assert four == [(0, 6), (1, 7), (2, 8), (3, 9)]
    assert eight == [(core,) for core in range(8)], "too few cores: threads are dealt out"


def test_gpus_are_named_by_number_or_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_by_nvml", lambda: ["GPU-a", "GPU-b", "GPU-c"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus.chosen("all") == ["GPU-a", "GPU-b", "GPU-c"]
    assert gpus.chosen([1, "GPU-a"]) == ["GPU-b", "GPU-a"]
    assert gpus.chosen(2) == ["GPU-c"]
    assert gpus.chosen(None) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    assert gpus.chosen("all") == ["GPU-c"]
    with pytest.raises(UsageError, match="GPU-a is not here"):
        gpus.chosen(["GPU-a"])


@pytest.mark.parametrize(
    ("variable", "visible"),
    [
        ("1, GPU-a", ["GPU-b", "GPU-a"]),
        ("MIG-1,0", ["MIG-1", "GPU-a"]),
        ("0,-1,1", ["GPU-a"]),
        ("0,7,1", ["GPU-a"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
    ],
)
def test_gpus_that_cuda_does_not_show_are_not_used(
    variable: str, visible: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA ends its list at the first word that names no GPU (CUDA C++ Programming Guide)."""
    monkeypatch.setattr(gpus, "_by_nvml", lambda: ["GPU-a", "GPU-b"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    if visible:
        assert gpus.chosen("all") == visible
    else:
        with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES hides all"):
            gpus.chosen("all")


def test_a_worker_of_this_machine_measures_a_sweep_and_the_next_one_reuses_it(
    cli: Cli, results: Path
) -> None:
    answer = cli(*LOCAL)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("2 cases on 1 worker on this machine → ")
    stored = rows(results)
    assert sorted(row["mode"] for row in stored) == ["eager", "no_grad"]
    assert {(row["status"], row["scheduler"]) for row in stored} == {("ok", "local")}
    assert {row["worker"] for row in stored} == {f"local-{stored[0]['scheduler_job']}"}
    assert sorted(row["position"] for row in stored) == [0, 1]
    again = cli(*LOCAL)
    assert (again.status, again.err) == (0, "")
    assert "reusing 2 of 2 cases; resume=false measures them again" in again.out
    assert len(rows(results)) == 2
