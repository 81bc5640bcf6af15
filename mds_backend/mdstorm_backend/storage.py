"""URLs and files: one grammar over fsspec, with local disks as the fast case.

A dataset is named by a URL (``file:///data/x``, ``dbfs:/x``, ``s3://bucket/x``, ``memory://x``) or
by a local path. `Location` is one directory behind such a URL.
"""

from __future__ import annotations

import mmap
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import fsspec
from fsspec.implementations.local import LocalFileSystem

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedURLError

__all__ = ["Buffer", "Location", "check_no_secrets", "has_scheme", "normalize_url"]

Buffer: TypeAlias = bytes | bytearray | memoryview

#: Where Databricks mounts remote storage into the local file tree (FUSE).
FUSE_PREFIXES = ("/dbfs/", "/Volumes/", "/Workspace/")


def has_scheme(url: str) -> bool:
    """Whether `url` names its storage: it has a scheme, or lies on a Databricks mount."""
    scheme, colon, _ = url.partition(":")
    return bool(colon and scheme.isidentifier()) or url.startswith(FUSE_PREFIXES)


def normalize_url(url: str) -> str:
    """Return the one spelling of `url` that mdstorm uses.

    ``file:/x``, ``FILE:///x`` and a local path become ``file:///x``; ``dbfs:/x`` becomes the path
    of the mount, ``file:///dbfs/x`` or ``file:///Volumes/x``. A trailing slash is dropped.

    Raises
    ------
    UnsupportedURLError
        If a ``file:`` or ``dbfs:`` URL names a host, as ``file://tmp/x`` does, or is relative.
    """
    scheme, colon, rest = url.partition(":")
    if not (colon and scheme.isidentifier()):
        return "file://" + os.path.abspath(url)
    scheme = scheme.lower()
    if scheme not in ("file", "dbfs"):
        return f"{scheme}:{rest.rstrip('/')}"
    if not rest.startswith("/") or (rest.startswith("//") and not rest.startswith("///")):
        what = f"the host {rest[2:].partition('/')[0]!r}" if rest.startswith("/") else "no root"
        raise UnsupportedURLError(
            f"{url!r} has {what}, where a {scheme} URL has an absolute path: write "
            f"{scheme}:///{rest.strip('/')}"
        )
    path = "/" + rest.strip("/")
    if scheme == "file" or path.startswith("/Volumes/"):
        return "file://" + path
    return "file:///dbfs" + path


_SECRET = re.compile(r"key|secret|token|password|credential", re.IGNORECASE)


def check_no_secrets(storage_options: dict[str, Any]) -> None:
    """Refuse options that must not travel to other processes.

    Raises
    ------
    InvalidArgumentError
        If a name looks like a credential's; the message holds no value.
    """
    secrets = sorted(_secret_names(storage_options))
    if secrets:
        raise InvalidArgumentError(
            f"storage_options hold {secrets}, which would be pickled and sent to the Spark "
            "workers. Give the workers credentials of their own, through their environment, an "
            "instance profile or the cluster's configuration, and leave these options out"
        )


def _secret_names(options: dict[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _secret_names(value)
        elif _SECRET.search(str(name)):
            yield str(name)


@dataclass(frozen=True)
class Location:
    """A directory in some storage.

    Attributes
    ----------
    url : str
        Its URL as `normalize_url` spells it.
    storage_options : dict
        Arguments for the fsspec file system.
    """

    url: str
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def of(cls, url: str, storage_options: dict[str, Any] | None = None) -> Location:
        """Return the location behind `url`, which may also be a local path."""
        return cls(normalize_url(os.fspath(url)), dict(storage_options or {}))

    def __reduce__(self) -> tuple[Any, ...]:
        check_no_secrets(self.storage_options)
        return Location, (self.url, self.storage_options)

    def _resolve(self) -> tuple[Any, str]:
        if self.url.startswith("file:///"):
            # Taken literally: a path may hold any character, '%' and blanks among them.
            return LocalFileSystem(), self.url[len("file://") :]
        try:
            fs, path = fsspec.core.url_to_fs(self.url, **self.storage_options)
        except ValueError as error:
            raise UnsupportedURLError(
                f"{self.url!r} cannot be opened ({error}): use file:///…, dbfs:/…, s3://…, gs://…, "
                "abfss://… or another scheme that fsspec knows"
            ) from error
        return fs, path

    @property
    def path(self) -> str:
        """Path of the directory inside its file system."""
        return self._resolve()[1]

    @property
    def is_local_disk(self) -> bool:
        """Whether files may be memory-mapped and renamed: local, and not a FUSE mount."""
        return self.url.startswith("file:///") and not self.path.startswith(FUSE_PREFIXES)

    def file_url(self, name: str) -> str:
        """URL of the file `name` in this directory."""
        return f"{self.url}/{name}"

    def child(self, name: str) -> Location:
        """Return the directory `name` below this one."""
        return Location(self.file_url(name), self.storage_options)

    def make_directory(self) -> None:
        """Create the directory and its parents where storage has such a thing.

        Raises
        ------
        FileNotFoundError
            If it lies on a Databricks mount that this machine does not have.
        """
        fs, path = self._resolve()
        for mount in FUSE_PREFIXES:
            if path.startswith(mount) and not os.path.isdir(mount):
                raise FileNotFoundError(f"{mount} is not mounted on this machine")
        fs.makedirs(path, exist_ok=True)

    def list_sizes(self) -> list[tuple[str, int]]:
        """Name, relative to this directory, and size in bytes of every file in it and below."""
        fs, path = self._resolve()
        root = fs._strip_protocol(path)
        if not fs.exists(root):
            return []
        found = fs.find(root, detail=True)
        return sorted((os.path.relpath(name, root), info["size"]) for name, info in found.items())

    def list_names(self) -> list[str]:
        """Names of all files in this directory and below, relative to it, sorted."""
        return [name for name, _ in self.list_sizes()]

    def exists(self, name: str) -> bool:
        """Whether the file `name` exists in this directory."""
        fs, path = self._resolve()
        return bool(fs.exists(f"{path}/{name}"))

    def stat(self, name: str) -> dict[str, Any]:
        """Return fsspec's description of the file `name`, at least its ``size`` in bytes."""
        fs, path = self._resolve()
        return dict(fs.info(f"{path}/{name}"))

    def read(self, name: str) -> Buffer:
        """Content of a file.

        Returns
        -------
        memoryview or bytes
            On a local disk a read-only memory map, which stays valid after the file is removed;
            elsewhere a copy in memory.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        """
        fs, path = self._resolve()
        if not self.is_local_disk:
            return bytes(fs.cat_file(f"{path}/{name}"))
        with open(f"{path}/{name}", "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return b""
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def write(self, name: str, buffers: Iterable[Buffer]) -> None:
        """Write a file that is seen whole or not at all.

        On a local disk a temporary file is renamed; elsewhere the bytes, joined in memory, go up in
        one piece.
        """
        fs, path = self._resolve()
        target = f"{path}/{name}"
        if not self.is_local_disk:
            fs.pipe_file(target, b"".join(buffers))
            return
        temporary = Path(f"{target}.{uuid.uuid4().hex}.tmp")
        try:
            with temporary.open("wb") as file:
                file.writelines(buffers)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        """Remove a file; one that is already gone is no error."""
        fs, path = self._resolve()
        with suppress(FileNotFoundError):
            fs.rm_file(f"{path}/{name}")

    def remove_directory_if_empty(self) -> None:
        """Remove the directory itself if nothing is left in it."""
        fs, path = self._resolve()
        if fs.exists(path) and not fs.find(path):
            fs.rm(path, recursive=True)
