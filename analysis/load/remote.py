"""Studies at addresses such as s3://bucket/results/main, read through pyarrow's file systems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from modescope.bench.records.errors import UsageError

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

MARK = "://"
"""What an address has and a path has not: Path("a://b") would be a:/b."""

_SCHEMES = "s3://, gs://, abfs://, hdfs:// or file://"


@dataclass(frozen=True)
class RemotePath:
    """A file or folder of a remote file system, with those methods of Path that reading needs."""

    address: str  # as typed, with what follows a `?`
    below: str = ""  # path below it

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.address, f"{self.below}/{name}")

    def __str__(self) -> str:
        return self.address.partition("?")[0].rstrip("/") + self.below

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(str(self)).name

    @property
    def scheme(self) -> str:
        """What stands before ://."""
        return self.address.partition(MARK)[0]

    def resolve(self) -> RemotePath:
        """Itself: an address is absolute."""
        return self

    @property
    def opened(self) -> tuple[FileSystem, str]:
        """The file system, and the path in it. UsageError if there is none for the address."""
        system, path = _opened(self.address)
        return system, f"{path.rstrip('/')}{self.below}"

    def info(self) -> FileInfo:
        """Size, time and type. Raises OSError where the file system does not answer."""
        system, path = self.opened
        return system.get_file_info(path)

    def is_file(self) -> bool:
        """Whether it is a file."""
        return bool(self.info().is_file)

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        from pyarrow.fs import FileType

        return bool(self.info().type == FileType.Directory)

    def read_bytes(self) -> bytes:
        """The content of the file. Raises OSError."""
        system, path = self.opened
        with system.open_input_stream(path) as file:
            content: bytes = file.read()
        return content

    def open(self) -> BinaryIO:
        """The file, for reading parts of it. Raises OSError."""
        system, path = self.opened
        file: BinaryIO = system.open_input_file(path)
        return file

    def files(self) -> Iterator[FileInfo]:
        """The files of the folder; FileNotFoundError if it does not exist."""
        from pyarrow.fs import FileSelector

        system, path = self.opened
        yield from (one for one in system.get_file_info(FileSelector(path)) if one.is_file)


Folder = Path | RemotePath


def located(folder: str | Folder) -> Folder:
    """The local folder, or the remote one that an address names; file:// is a local folder."""
    if not isinstance(folder, str):
        return folder
    if MARK not in folder:
        return Path(folder)
    parts = urlsplit(folder)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return RemotePath(folder)


@cache
def _opened(address: str) -> tuple[FileSystem, str]:
    """The file system of an address, which may ask the network, and the path in it."""
    from pyarrow.fs import FileSystem  # takes 50 ms

    try:
        system, path = FileSystem.from_uri(address)
    except pa.ArrowInvalid as error:
        raise UsageError(
            f"{address} is not an address that can be read ({first_line(error)}); write a folder, "
            f"or an address that begins with {_SCHEMES}"
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise unreachable(RemotePath(address), error) from None
    return system, path


def unreachable(folder: RemotePath, error: Exception) -> UsageError:
    """The error that an address gave, as one sentence."""
    return UsageError(
        f"{folder} cannot be read ({first_line(error)}); check its name, the network and your "
        "credentials (docs/many-results.md#from-s3-and-other-stores)"
    )


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return str(error).partition("\n")[0]
