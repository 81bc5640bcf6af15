"""Cache options, the layout of a cache directory, its records, and the default directories.

A record lists the files that the cache made for a shard, and the hashes that were verified. It is
the content of the shard's lock file, so only the holder of the lock changes it. Its modification
time is the time of the shard's last use. The ledger counts the bytes of all shards: see `space`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mdstorm_backend import errors
from mdstorm_backend.base.checks import check_integer, check_seconds, is_integer, parse_json
from mdstorm_backend.base.locks import NO_LOCKS, FileLock, wait_for_lock
from mdstorm_backend.base.plain_files import read_plain
from mdstorm_backend.format.compression import check_hashes
from mdstorm_backend.format.shard_info import INDEX_NAME
from mdstorm_backend.format.sizes import parse_size
from mdstorm_backend.storage import normalize_url

#: Directory for the cache's own bookkeeping files, inside the cache directory.
NOTES = ".mdstorm"

_PART_SUFFIX = ".part"
#: Seconds to wait for the ledger's lock.
LEDGER_PATIENCE = 60.0


@dataclass(frozen=True)
class CacheOptions:
    """Options for downloading and caching shards. Can be pickled; holds no secrets.

    Attributes
    ----------
    directory : str or None
        Local directory for the shards, in the layout that other readers of the format expect. If
        None, each dataset has a directory under the default cache directory, which is the value of
        the environment variable ``MDSTORM_CACHE_DIR``, or else ``mdstorm-cache-<uid>`` in the
        system's temporary directory.
    limit : int or None
        Maximum total size in bytes of the cache's files in the directory, including the index; may
        be given as a string such as ``"10gb"``. If the files need more, the least recently used
        shards are removed. None means no limit.
    validate_hash : str or None
        Name of a hash in the index, used to verify every shard.
    retry : int
        Number of download attempts.
    timeout : float
        Seconds that a download may wait without receiving data.
    keep_zip : bool
        Whether to keep compressed files next to the decompressed shards.
    """

    directory: str | None = None
    limit: int | None = None
    validate_hash: str | None = None
    retry: int = 2
    timeout: float = 60.0
    keep_zip: bool = False

    def __post_init__(self) -> None:
        if self.directory is not None:
            object.__setattr__(self, "directory", _local_path(self.directory))
        if self.limit is not None:
            object.__setattr__(self, "limit", _parse_limit(self.limit))
        if self.validate_hash is not None:
            check_hashes([self.validate_hash])
        check_integer("retry", self.retry, lowest=1)
        check_seconds("timeout", self.timeout)


def _parse_limit(value: int | float | str) -> int:
    """Parse a number of bytes, given as a number or as a string such as ``"10gb"``."""
    size = 0
    with contextlib.suppress(errors.InvalidArgumentError):
        size = parse_size(value)
    if size <= 0 or isinstance(value, bool):
        raise errors.InvalidArgumentError(
            "the cache limit must be a positive number of bytes, or text such as '500mb' or "
            f"'10gb'; found {value!r}"
        )
    return size


def _local_path(directory: str) -> str:
    directory = os.fspath(directory)
    url = normalize_url(directory)
    if not url.startswith("file:///"):
        raise errors.InvalidArgumentError(
            f"the cache directory must be a local path, found {directory!r}: choose a directory "
            "on a local disk"
        )
    return url[len("file://") :]


def cache_root() -> str:
    """Return the root of the default cache directories."""
    root = os.environ.get("MDSTORM_CACHE_DIR")
    if root:
        return os.path.abspath(os.path.expanduser(root))
    return os.path.join(tempfile.gettempdir(), f"mdstorm-cache-{os.getuid()}")


def check_cache_root() -> None:
    """Raise PermissionError if other users could write to the default cache root.

    A root that is set with ``MDSTORM_CACHE_DIR`` is not checked.

    Raises
    ------
    PermissionError
        If the root is a link, or another user owns it or can write to it.
    """
    root = cache_root()
    if os.environ.get("MDSTORM_CACHE_DIR") or not os.path.lexists(root):
        return
    found = os.lstat(root)
    is_private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o022
    if found.st_uid != os.getuid() or not is_private:
        raise PermissionError(f"{root} is a link, or another user owns it or can write to it")


def default_directory(url: str, fingerprint: str) -> str:
    """Return the default cache directory for a dataset in the state `fingerprint`."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", url.rstrip("/").rpartition("/")[2])[-40:]
    shown = f"{name}-" if name.strip(".") else ""
    return os.path.join(cache_root(), f"{shown}{_key(url)}-{_key(fingerprint)}")


def _key(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=12).hexdigest()


class CacheDirectory:
    """A cache directory: its paths, its records and its locks.

    Parameters
    ----------
    path : str
        The directory; it is created with the first shard.

    Attributes
    ----------
    path : str
        The directory.
    notes : str
        The directory for the cache's bookkeeping files, including the following ones.
    ledger : str
        The lock file that is held while space is reserved or freed.
    users : str
        The lock file that readers of this directory share.
    descriptor : str
        The file that identifies the cached dataset.
    index_note : str
        The record of the copy of the index, which is never evicted.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes = os.path.join(path, NOTES)
        self.ledger = os.path.join(self.notes, "ledger")
        self.users = os.path.join(self.notes, "users")
        self.descriptor = os.path.join(self.notes, "dataset.json")
        self.index_note = os.path.join(self.notes, "index")

    def file(self, basename: str) -> str:
        """Return the path in the cache of the dataset's file `basename`.

        Raises
        ------
        CorruptDatasetError
            If the name points outside the directory, or to the cache's bookkeeping files.
        """
        if not _is_inside(basename):
            raise errors.CorruptDatasetError(
                f"the index lists a file {basename!r}, which would be outside the dataset's "
                "directory. Do not trust this dataset; write it again"
            )
        return os.path.join(self.path, basename)

    def record(self, basename: str) -> str:
        """Return the path of the record for the shard whose uncompressed file is `basename`."""
        # The name is hashed so that its length is fixed, even for shards with long names.
        return os.path.join(self.notes, _key(basename) + _RECORD_SUFFIX)

    @property
    def index_bytes(self) -> int:
        """Size of the index in the directory, in bytes, or 0 if there is no index."""
        identity = FileIdentity.at(self.file(INDEX_NAME))
        return 0 if identity is None else identity.size

    def new_part(self, record: str) -> str:
        """Return a new path for a temporary file of the shard that `record` belongs to."""
        return f"{record}.{uuid.uuid4().hex}{_PART_SUFFIX}"

    def rewrite(self, lock: FileLock, line: bytes) -> None:
        """Replace the content of a locked record or of the ledger."""
        # With one name for all attempts, the next one removes what a killed process left.
        lock.replace(line, f"{lock.path}.record{_PART_SUFFIX}")

    def records(self) -> list[str]:
        """Return the paths of all records in sorted order."""
        return self._listed(_RECORD_SUFFIX)

    def parts(self) -> list[tuple[str, str]]:
        """Return each temporary file with its lock file: its shard's record, or else the ledger.

        Only the holder of the lock changes the temporary file.
        """
        found = []
        for part in self._listed(_PART_SUFFIX):
            owner = part.removesuffix(_PART_SUFFIX).rpartition(".")[0]
            found.append((part, owner if owner.endswith(_RECORD_SUFFIX) else self.ledger))
        return found

    def tags(self, state: str) -> Iterator[tuple[str, str]]:
        """Yield the name and entity tag of each object that a shard in a state was made from."""
        for record in map(Record.at, self.records()):
            if record.dataset == state:
                yield from record.tags.items()

    def _listed(self, suffix: str) -> list[str]:
        try:
            with os.scandir(self.notes) as entries:
                found = [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        return sorted(path for path in found if path.endswith(suffix))

    def parts_of(self, record: str) -> list[str]:
        """Return the paths of all temporary files of the shard that `record` belongs to."""
        return [part for part, owner in self.parts() if owner == record]

    def holds(self, record: Record, name: str) -> bool:
        """Whether the file `name` is listed in a record and has not changed since.

        A file behind a symbolic link is not one that the cache made.
        """
        listed, path = record.files.get(name), self.file(name)
        if listed is None or FileIdentity.at(path) != listed:
            return False
        return os.path.realpath(path) == os.path.join(os.path.realpath(self.path), name)

    def make(self, url: str, fingerprint: str) -> bool:
        """Create the directory and record in it which dataset it caches.

        Returns
        -------
        bool
            Whether the dataset was not recorded yet.

        Raises
        ------
        OSError
            If the directory cannot be created, or other users could redirect it: see `check`.
        """
        described = {"url": url, "fingerprint": fingerprint}
        if self.described() == described:
            return False
        if os.path.dirname(self.path) == cache_root():
            os.makedirs(cache_root(), mode=0o700, exist_ok=True)
        self.check()
        os.makedirs(self.notes, exist_ok=True)
        with self.lock_ledger():
            os.replace(self._write_part(json.dumps(described).encode()), self.descriptor)
        return True

    def check(self) -> None:
        """Raise PermissionError if other users have put a link in place of the bookkeeping files.

        If the directory is in the default root, this also calls `check_cache_root`.
        """
        if os.path.dirname(self.path) == cache_root():
            check_cache_root()
        if os.path.islink(self.notes):
            raise PermissionError(f"{self.notes} is a link")

    @property
    def is_cache(self) -> bool:
        """Whether there are bookkeeping files, and not links in their place."""
        is_linked = os.path.islink(self.notes) or os.path.islink(self.descriptor)
        return os.path.isfile(self.descriptor) and not is_linked

    def described(self) -> dict[str, str]:
        """Return the URL and fingerprint of the dataset last cached here, or {} if unknown."""
        try:
            value = parse_json(read_plain(self.descriptor))
            return {"url": str(value["url"]), "fingerprint": str(value["fingerprint"])}
        except (OSError, KeyError, TypeError, ValueError):
            return {}

    def lock_ledger(self) -> FileLock:
        """Lock the ledger, which all shards share. Hold it briefly, never during a download."""
        return wait_for_lock(self.ledger, patience=LEDGER_PATIENCE, progress=lambda: None)

    def index(self) -> bytes | None:
        """Return the content of the index in the directory, or None if there is no index."""
        try:
            with open(self.file(INDEX_NAME), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def keep_index(self, url: str, content: bytes) -> None:
        """Put a copy of a dataset's index in the directory, recorded as written by the cache.

        Raises
        ------
        InvalidArgumentError
            If there is a different index that this cache did not put there.
        """
        path, present = self.file(INDEX_NAME), self.index()
        if present == content:
            return
        if present is not None and not self.holds(Record.at(self.index_note), INDEX_NAME):
            raise errors.InvalidArgumentError(
                f"{path} is not the index of {url}, but of a different dataset or an earlier "
                "version, and the cache did not create this file. Choose another directory, or "
                "remove the files in this directory"
            )
        if not self.described():
            self.make(url, "")
        with self.lock_ledger():
            part = self._write_part(content)
            record = Record(files={INDEX_NAME: FileIdentity.of(os.stat(part))})
            os.replace(self._write_part(record.to_bytes()), self.index_note)
            os.replace(part, path)

    def _write_part(self, data: bytes) -> str:
        """Write a temporary file that belongs to the ledger; return its path."""
        part = self.new_part(self.ledger)
        Path(part).write_bytes(data)
        return part

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Turn disk errors in the ``with`` block into a StorageError that explains the remedy.

        Raises
        ------
        StorageError
            Instead of any `OSError` that is not one of this package's own errors.
        """
        try:
            yield
        except errors.MDStormError:
            raise
        except OSError as error:
            if error.errno in NO_LOCKS:
                remedy = (
                    "It is on a file system without locks, such as a mount of remote storage, "
                    "where processes cannot share a cache: choose a directory on a local disk"
                )
            elif error.errno == errno.ENOENT:
                remedy = (
                    "Files in it were removed while shards were copied to it. Start again, and "
                    "keep the directory until all programs that use it end, or choose another one"
                )
            else:
                remedy = (
                    "Make it writable for you alone, free up space there, or choose another "
                    "directory"
                )
            raise errors.StorageError(
                f"the cache directory {self.path} cannot be used ({error}). {remedy}: local=…, or "
                "the environment variable MDSTORM_CACHE_DIR",
                url=self.path,
            ) from error


_RECORD_SUFFIX = ".shard"
_VERSION = 1
#: Errors for a path that does not exist, leads through a file, is a link to itself or too long.
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}


def _is_inside(basename: str) -> bool:
    """Whether a name is that of a file in the cache directory, but not among the notes.

    Raises ValueError for text that cannot be encoded.
    """
    parts = basename.replace("\\", "/").split("/")
    is_inside = not os.path.isabs(basename) and ".." not in parts and parts[0] not in (NOTES, "")
    return is_inside and b"\0" not in os.fsencode(basename)


@dataclass(frozen=True)
class FileIdentity:
    """The identity of a file, which changes when the file is replaced or modified."""

    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileIdentity:
        """Return the identity for an `os.stat` result."""
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns)

    @classmethod
    def from_json(cls, value: Any) -> FileIdentity:
        """Parse an identity; raise TypeError or ValueError if `value` is anything else."""
        identity = cls(**value)
        if not all(is_integer(number) for number in vars(identity).values()) or identity.size < 0:
            raise ValueError(f"{value!r} is not the identity of a file")
        return identity

    @classmethod
    def at(cls, path: str) -> FileIdentity | None:
        """Return the identity of the file at `path`, or None if there is no file."""
        try:
            return cls.of(os.stat(path))
        except OSError as error:
            if error.errno in _NO_FILE:
                return None
            raise


@dataclass(frozen=True)
class Record:
    """The record for one shard.

    Attributes
    ----------
    dataset : str
        State of the dataset that the files were downloaded for.
    files : dict of str to FileIdentity
        The files that this cache made, by their names in the directory.
    checked : dict of str to FileIdentity
        The identity of the uncompressed shard whose hash was verified, by hash name.
    source : FileIdentity or None
        The file that `files` were made from, if it is on a local disk.
    reserved : int
        Bytes reserved for a download in progress.
    tags : dict of str to str
        The entity tags of the objects that `files` were made from, by their names in the store.
    """

    dataset: str = ""
    files: dict[str, FileIdentity] = field(default_factory=dict)
    checked: dict[str, FileIdentity] = field(default_factory=dict)
    source: FileIdentity | None = None
    reserved: int = 0
    tags: dict[str, str] = field(default_factory=dict)

    def is_from_another(self, origin: FileIdentity | None) -> bool:
        """Whether the files are known to have been made from a file other than `origin`."""
        return None not in (origin, self.source) and origin != self.source

    @property
    def nbytes(self) -> int:
        """Bytes that count towards the cache limit, including reserved ones."""
        return self.reserved + sum(identity.size for identity in self.files.values())

    def to_bytes(self) -> bytes:
        """Serialise the record; return no bytes for an empty record."""
        if self == Record():
            return b""
        return json.dumps({"version": _VERSION, **vars(self)}, default=vars).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Record:
        """Parse the output of `to_bytes`; return an empty record for any other data."""
        try:
            value = parse_json(data.partition(b"\n")[0])
            if value["version"] != _VERSION:
                return cls()
            source = value["source"]
            record = cls(
                dataset=value["dataset"],
                files=_identities(value["files"]),
                checked=_identities(value["checked"]),
                source=None if source is None else FileIdentity.from_json(source),
                reserved=value["reserved"],
                tags=dict(value.get("tags", {})),  # earlier versions did not record them
            )
            is_valid = isinstance(record.dataset, str) and is_integer(record.reserved)
            is_valid = is_valid and record.reserved >= 0 and all(map(_is_inside, record.files))
            return record if is_valid else cls()
        except (AttributeError, KeyError, TypeError, ValueError):
            return cls()

    @classmethod
    def at(cls, path: str) -> Record:
        """Read a record without locking it; return an empty one if it is absent or incomplete."""
        try:
            return cls.from_bytes(read_plain(path))
        except OSError:
            return cls()


def _identities(value: dict[str, Any]) -> dict[str, FileIdentity]:
    return {name: FileIdentity.from_json(identity) for name, identity in value.items()}
