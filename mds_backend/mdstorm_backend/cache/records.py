"""The cache's records: which files it made for a shard, and which hashes they passed.

A record is the content of the shard's lock file, so only the holder of the lock changes it. Its
modification time is the shard's last use.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

from mdstorm_backend.base.plain_json import parse_json

_RECORD_SUFFIX = ".shard"
_VERSION = 1


def record_name(basename: str) -> str:
    """Name of the record of a shard: of fixed length, whatever the index calls the shard."""
    return hashlib.blake2s(basename.encode(), digest_size=12).hexdigest() + _RECORD_SUFFIX


def is_record(name: str) -> bool:
    """Whether `name` is that of a record."""
    return name.endswith(_RECORD_SUFFIX)


@dataclass(frozen=True)
class FileIdentity:
    """Identifies a file: it differs for another file in its place, or for changed content."""

    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileIdentity:
        """Take the identity from the file's status."""
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns)

    @classmethod
    def at(cls, path: str) -> FileIdentity | None:
        """Identity of the file at `path`; None if there is none."""
        try:
            return cls.of(os.stat(path))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise


@dataclass(frozen=True)
class Record:
    """The record of one shard.

    Attributes
    ----------
    dataset : str
        Fingerprint of the dataset that the files were downloaded for.
    files : dict of str to FileIdentity
        The files that this cache made, by their names in the directory.
    checked : dict of str to FileIdentity
        The uncompressed shard that passed a hash, by the name of the hash.
    source : FileIdentity or None
        The file they were made from, if it is on a local disk.
    reserved : int
        Bytes that a download in progress will take.
    """

    dataset: str = ""
    files: dict[str, FileIdentity] = field(default_factory=dict)
    checked: dict[str, FileIdentity] = field(default_factory=dict)
    source: FileIdentity | None = None
    reserved: int = 0

    def is_from_another(self, origin: FileIdentity | None) -> bool:
        """Whether the files are known to have been made from another file than `origin`."""
        return None not in (origin, self.source) and origin != self.source

    @property
    def nbytes(self) -> int:
        """Bytes on the disk that count towards the limit."""
        return self.reserved + sum(identity.size for identity in self.files.values())

    def to_bytes(self) -> bytes:
        """Serialise; an empty record is empty."""
        if self == Record():
            return b""
        value = {
            "version": _VERSION,
            "dataset": self.dataset,
            "files": {name: vars(identity) for name, identity in self.files.items()},
            "checked": {name: vars(identity) for name, identity in self.checked.items()},
            "source": self.source and vars(self.source),
            "reserved": self.reserved,
        }
        return json.dumps(value).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Record:
        """Read what `to_bytes` wrote; unreadable data gives an empty record."""
        try:
            value = parse_json(data.partition(b"\n")[0])
            if value["version"] != _VERSION:
                return cls()
            return cls(
                dataset=str(value["dataset"]),
                files=_identities(value["files"]),
                checked=_identities(value["checked"]),
                source=FileIdentity(**value["source"]) if value["source"] else None,
                reserved=int(value["reserved"]),
            )
        except (KeyError, TypeError, ValueError):
            return cls()

    @classmethod
    def at(cls, path: str) -> Record:
        """Read a record without its lock; one that is being written reads as empty."""
        try:
            with open(path, "rb") as file:
                return cls.from_bytes(file.read())
        except OSError:
            return cls()


def _identities(value: dict[str, Any]) -> dict[str, FileIdentity]:
    return {str(name): FileIdentity(**identity) for name, identity in value.items()}
