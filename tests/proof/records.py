"""What is known of the steps: a file in the folder, and the archive of the folder.

A record belongs to the machine that it was made on. On another GPU, or with another torch, a step
counts as not begun; on a machine without a GPU what a GPU has shown stays visible.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from modescope.bench.records import files
from modescope.bench.records.errors import UsageError
from tests.proof.step import Step

FILE = "proof.json"
ARCHIVE_MAX_BYTES = 15 * 10**6
"""What is larger is left out of the archive, the largest first: such as traces."""

LEFT_OUT = ("reference", "report", "caches", "logs")
"""Folders that are made again from the rest, or that nothing needs."""


@dataclass(frozen=True)
class Machine:
    """Where the steps run."""

    gpu: str | None  # its name; None where torch sees none
    torch: str
    python: str

    def __str__(self) -> str:
        """For a line of the output."""
        gpu = self.gpu or "no CUDA GPU"
        return f"{gpu}, torch {self.torch}, Python {self.python}"


@dataclass(frozen=True)
class Ended:
    """A command that ended by itself."""

    status: int
    seconds: float


@dataclass(frozen=True)
class Record:
    """What is known of a step; commands by their names."""

    machine: Machine
    commands: dict[str, Ended] = field(default_factory=dict)
    stopped: str | None = None  # why the last call did not finish it
    reached: str = ""

    @property
    def seconds(self) -> float:
        """How long its commands took that ended."""
        return sum(each.seconds for each in self.commands.values())


class Records:
    """The records in a folder, by the names of their steps."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError where the file is not one of ours."""
        self.file = folder / FILE
        self.by_name: dict[str, Record] = {}
        if self.file.is_file():
            try:
                self.by_name = dict(_parsed(json.loads(self.file.read_text(encoding="utf-8"))))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise UsageError(f"{self.file} cannot be read ({error}); remove it") from error

    def of(self, step: Step, machine: Machine) -> Record:
        """The step's record for this machine; a new one where there is none."""
        record = self.by_name.get(step.name)
        visible = record and (
            record.machine == machine or (step.needs_gpu and not machine.gpu and record.machine.gpu)
        )
        return record if record and visible else Record(machine)

    def keep(self, step: Step, record: Record) -> None:
        """Writes the file anew."""
        self.by_name[step.name] = record
        with files.atomic_write(self.file) as partial:
            partial.write_text(
                json.dumps({k: asdict(v) for k, v in self.by_name.items()}, indent=1)
            )


def _parsed(stored: dict[str, dict[str, object]]) -> Iterator[tuple[str, Record]]:
    for name, each in stored.items():
        commands = {text: Ended(**ended) for text, ended in each["commands"].items()}  # type: ignore
        machine = Machine(**each["machine"])  # type: ignore[arg-type]
        yield name, Record(machine, commands, each["stopped"], each["reached"])  # type: ignore


def pack(folder: Path, archive: Path) -> list[str]:
    """Writes the archive of the folder; returns what was left out because it is too large.

    Raises UsageError where it cannot be written.
    """
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with files.atomic_write(archive) as partial:
            return _packed(folder, partial, archive)
    except OSError as error:
        raise UsageError(f"--archive {archive}: {error.strerror}; name another") from error


def _packed(folder: Path, partial: Path, archive: Path) -> list[str]:
    """Small files first, so that a large one leaves out nothing but itself."""
    left_out = []
    with partial.open("wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for path in sorted(_members(folder, archive), key=lambda each: each.stat().st_size):
            content = path.read_bytes()  # whole, though a command may still be writing to it
            if raw.tell() + len(content) > ARCHIVE_MAX_BYTES:
                left_out.append(str(path.relative_to(folder)))
                continue
            member = tarfile.TarInfo(str(path.relative_to(folder)))
            member.size, member.mtime = len(content), int(path.stat().st_mtime)
            tar.addfile(member, io.BytesIO(content))
    return left_out


def _members(folder: Path, archive: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        inside = path.relative_to(folder).parts[:-1]
        kept = not set(inside) & set(LEFT_OUT) and not path.name.startswith(".")
        if kept and path.is_file() and not path.is_symlink() and path != archive:
            yield path


def unpack(archive: Path, folder: Path) -> None:
    """Fills the folder, which must be new or empty; raises UsageError."""
    with contextlib.suppress(FileNotFoundError):
        if os.listdir(folder):
            raise UsageError(
                f"--start-from {archive}: {folder} is not empty; name another --folder"
            )
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise UsageError(f"--start-from {archive} cannot be unpacked ({error})") from error
