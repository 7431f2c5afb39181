"""The folder of a study: a path, or an address such as s3://bucket/results/main."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

_MARK = "://"  # what an address has and a path has not: Path("a://b") would be a:/b


@dataclass(frozen=True)
class RemotePath:
    """A folder at an address, with the methods of Path that reading needs."""

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
        """The part of the address before ://, such as `s3`."""
        return self.address.partition(_MARK)[0]

    def resolve(self) -> RemotePath:
        """Returns the path itself, because an address is absolute."""
        return self


Folder = Path | RemotePath


def located(folder: str | Folder) -> Folder:
    """Returns `folder` as a Path, or as a RemotePath if it is an address (file:// is a Path)."""
    if not isinstance(folder, str):
        return folder
    if _MARK not in folder:
        return Path(folder)
    parts = urlsplit(folder)
    return Path(unquote(parts.path)) if parts.scheme == "file" else RemotePath(folder)
