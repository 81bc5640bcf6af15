"""The layout of a cache directory, its records, and the default cache directories.

A record says which files the cache made for a shard, and which hashes they passed. It is the
content of the shard's lock file, so only the holder of the lock changes it. Its modification time
is the shard's last use.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from mdstorm_backend.base.checks import parse_json
from mdstorm_backend.base.locks import NO_LOCKS, FileLock, wait_for_lock
from mdstorm_backend.errors import CorruptDatasetError, MDStormError, StorageError
from mdstorm_backend.format.index import INDEX_NAME

#: Directory of the cache's own notes, inside the cache directory.
NOTES = ".mdstorm"

_PART_SUFFIX = ".part"
#: Seconds to wait for the ledger.
_LEDGER_PATIENCE = 60.0


def cache_root() -> str:
    """Return the root of the default cache directories."""
    root = os.environ.get("MDSTORM_CACHE_DIR")
    if root:
        return os.path.abspath(os.path.expanduser(root))
    return os.path.join(tempfile.gettempdir(), f"mdstorm-cache-{os.getuid()}")


def check_cache_root() -> None:
    """Refuse a root that nobody has named and that is not this user's alone: it is shared.

    Raises
    ------
    PermissionError
        If it is a link, or another user owns it or can write to it.
    """
    root = cache_root()
    if os.environ.get("MDSTORM_CACHE_DIR") or not os.path.lexists(root):
        return
    found = os.lstat(root)
    is_private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o022
    if found.st_uid != os.getuid() or not is_private:
        raise PermissionError(f"{root} is a link, or another user owns it or can write to it")


def default_directory(url: str, fingerprint: str) -> str:
    """Return the default directory for one state of a dataset, identified by `fingerprint`."""
    return os.path.join(cache_root(), f"{default_prefix(url)}{_key(fingerprint)}")


def default_prefix(url: str) -> str:
    """Return the common prefix of the default directories for all states of one dataset."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", url.rstrip("/").rpartition("/")[2])[-40:]
    return f"{name}-{_key(url)}-" if name.strip(".") else f"{_key(url)}-"


def _key(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=12).hexdigest()


class CacheDirectory:
    """Paths in a cache directory.

    Parameters
    ----------
    path : str
        The directory; it is created with the first shard.

    Attributes
    ----------
    path : str
        The directory.
    notes : str
        The directory of what the cache notes, among it the others of these.
    ledger : str
        The lock that is held while space is reserved or freed.
    users : str
        The lock that readers of this directory share.
    descriptor : str
        The file that says which dataset this is.
    index_note : str
        The record of the index's copy, which is never evicted.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes = os.path.join(path, NOTES)
        self.ledger = os.path.join(self.notes, "ledger")
        self.users = os.path.join(self.notes, "users")
        self.descriptor = os.path.join(self.notes, "dataset.json")
        self.index_note = os.path.join(self.notes, "index")

    def file(self, basename: str) -> str:
        """Path of a shard's file.

        Raises
        ------
        CorruptDatasetError
            If the name leads out of the directory, or to the cache's own notes.
        """
        parts = basename.replace("\\", "/").split("/")
        if os.path.isabs(basename) or ".." in parts or parts[0] in (NOTES, ""):
            raise CorruptDatasetError(
                f"the index names a file {basename!r}, which would be outside the dataset's "
                "directory. Do not trust this dataset; write it again"
            )
        return os.path.join(self.path, basename)

    def record(self, basename: str) -> str:
        """Path of the record of the shard whose uncompressed file is `basename`."""
        # Of fixed length, whatever the index calls the shard.
        return os.path.join(self.notes, _key(basename) + _RECORD_SUFFIX)

    @property
    def index_bytes(self) -> int:
        """Size of the index in the directory, in bytes; 0 if there is none."""
        identity = FileIdentity.at(self.file(INDEX_NAME))
        return 0 if identity is None else identity.size

    def new_part(self, record: str) -> str:
        """Path for a file that is being made for the shard of a record."""
        return f"{record}.{uuid.uuid4().hex}{_PART_SUFFIX}"

    def parts(self) -> list[tuple[str, str]]:
        """Path of every file that is or was being made, and of the record it belongs to."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.notes):
                if name.endswith(_PART_SUFFIX):
                    owner = name.removesuffix(_PART_SUFFIX).rpartition(".")[0]
                    found.append((os.path.join(self.notes, name), os.path.join(self.notes, owner)))
        return found

    def parts_of(self, record: str) -> list[str]:
        """Path of every file that is or was being made for the shard of a record."""
        return [part for part, owner in self.parts() if owner == record]

    def make(self, url: str, fingerprint: str) -> bool:
        """Make the directory, and note in it which dataset it is for.

        Returns
        -------
        bool
            Whether that was not recorded yet.

        Raises
        ------
        OSError
            If that is not possible, or the default directory belongs to another user.
        """
        described = {"url": url, "fingerprint": fingerprint}
        if self.described() == described:
            return False
        if os.path.dirname(self.path) == cache_root():
            os.makedirs(cache_root(), mode=0o700, exist_ok=True)
        self.check_root()
        os.makedirs(self.notes, exist_ok=True)
        self.replace(self.descriptor, json.dumps(described).encode())
        return True

    def check_root(self) -> None:
        """Check the root, if the directory is in it, as `check_cache_root` does."""
        if os.path.dirname(self.path) == cache_root():
            check_cache_root()

    def described(self) -> dict[str, str]:
        """Return the URL and the fingerprint of the dataset that was downloaded here last."""
        try:
            with open(self.descriptor, "rb") as file:
                value = json.load(file)
            return {"url": str(value["url"]), "fingerprint": str(value["fingerprint"])}
        except (FileNotFoundError, KeyError, NotADirectoryError, TypeError, ValueError):
            return {}

    def lock_ledger(self, *, shared: bool = False) -> FileLock:
        """Lock what all shards share; held only briefly, never during a download."""
        return wait_for_lock(
            self.ledger, patience=_LEDGER_PATIENCE, progress=lambda: None, shared=shared
        )

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file that is seen whole or not at all."""
        with self.lock_ledger():
            os.replace(self._write_part(data), path)

    def keep_index(self, path: str, content: bytes) -> None:
        """Write the copy of an index, and note that it is ours."""
        with self.lock_ledger():
            part = self._write_part(content)
            record = Record(files={os.path.basename(path): FileIdentity.of(os.stat(part))})
            os.replace(self._write_part(record.to_bytes()), self.index_note)
            os.replace(part, path)

    def _write_part(self, data: bytes) -> str:
        """Write a temporary file, which belongs to the ledger."""
        part = self.new_part(self.ledger)
        try:
            with open(part, "wb") as file:
                file.write(data)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        return part

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Say what to do where the disk of the cache fails.

        Raises
        ------
        StorageError
            In the place of any `OSError` but those of this package.
        """
        try:
            yield
        except MDStormError:
            raise
        except OSError as error:
            if error.errno in NO_LOCKS:
                remedy = (
                    "It is on a file system without locks, such as a mount of remote storage, "
                    "where processes cannot share a cache: name a directory on a disk of this "
                    "machine"
                )
            else:
                remedy = "Make it writable, free space there, or name another directory"
            raise StorageError(
                f"the cache directory {self.path} cannot be used ({error}). {remedy}: local=…, or "
                "the environment variable MDSTORM_CACHE_DIR",
                url=self.path,
            ) from error


_RECORD_SUFFIX = ".shard"
_VERSION = 1


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
        except (FileNotFoundError, NotADirectoryError):
            return None


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
        return json.dumps({"version": _VERSION, **asdict(self)}).encode()

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
