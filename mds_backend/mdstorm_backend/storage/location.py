"""One directory behind a URL: reading, writing and listing the files in it."""

from __future__ import annotations

import mmap
import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import fsspec
from fsspec.implementations.local import LocalFileSystem

from mdstorm_backend.errors import UnsupportedURLError
from mdstorm_backend.storage.secrets import check_no_secrets
from mdstorm_backend.storage.urls import FUSE_PREFIXES, normalize_url

__all__ = ["Buffer", "Location"]

Buffer: TypeAlias = bytes | bytearray | memoryview


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

    def download(self, name: str, path: str) -> None:
        """Copy a file to the local `path`, a piece at a time; an error may leave a part of it."""
        fs, directory = self._resolve()
        if hasattr(fs, "store"):  # in memory, whose files some versions of fsspec cannot copy
            Path(path).write_bytes(fs.cat_file(f"{directory}/{name}"))
        else:
            fs.get_file(f"{directory}/{name}", path)

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
