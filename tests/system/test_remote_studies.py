"""A study in an S3 bucket, at a server that the test starts, is read as a local one is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3  # type: ignore[import-untyped]
import pytest
from moto.server import ThreadedMotoServer

from modescope.bench.records.rows import join
from tests.helpers.paths import ROOT
from tests.helpers.studies import cpu_sweep, record, save

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
VARIABLES = {**KEYS, "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture
def server() -> Iterator[str]:
    """The address of an S3 server, without its scheme."""
    started = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    try:
        yield f"{host}:{port}"
    finally:
        started.stop()


def typed(folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **VARIABLES, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", f"modescope.analysis.{program}", *words],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip


def test_it_is_read_as_the_local_study(server: str, tmp_path: Path) -> None:
    """Most of its rows are joined."""
    local = save(cpu_sweep(), tmp_path / "local")
    join(local / "rows")
    save([record("no_grad", run_id="later", case_id="later", model="mlp")], local)
    client = boto3.client(
        "s3", endpoint_url=f"http://{server}", region_name="us-east-1",
        aws_access_key_id="key", aws_secret_access_key="secret",
    )  # fmt: skip
    client.create_bucket(Bucket="bucket")
    for path in local.rglob("*.parquet"):
        client.upload_file(str(path), "bucket", f"results/main/{path.relative_to(local)}")
    study, nowhere = (
        f"s3://bucket/results/{name}?scheme=http&endpoint_override={server}&region=us-east-1"
        for name in ("main", "nowhere")
    )

    remote = typed(tmp_path, "table", study, "--csv")
    assert remote.stderr == ""
    assert remote.stdout == typed(tmp_path, "table", str(local), "--csv").stdout
    some = ("--csv", "--where", "model = 'mlp'")
    assert len(typed(tmp_path, "table", study, *some).stdout.splitlines()) == 2
    done = typed(tmp_path, "compare", str(local), study)
    assert done.returncode == 2
    assert "hold the same runs" in done.stderr
    done = typed(tmp_path, "report", study)
    assert (done.returncode, done.stdout) == (0, "results/s3-main/report/index.html\n"), done.stderr
    page = (tmp_path / "results" / "s3-main" / "report" / "index.html").read_text()
    assert "../rows/" not in page
    assert "endpoint_override" not in page
    done = typed(tmp_path, "table", nowhere)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: no study at s3://bucket/results/nowhere")
