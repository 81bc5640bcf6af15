"""MosaicML Streaming's operations on single files: compress, hash, download and upload."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from mdstorm_backend.errors import DatasetExistsError, InvalidArgumentError, UnsupportedURLError
from mdstorm_backend.format import compression as codecs
from mdstorm_backend.format.shard_info import MAX_SHARD_BYTES
from mdstorm_backend.mosaic.util import DEFAULT_TIMEOUT
from mdstorm_backend.storage import Location, check_scheme, copy_complete
from mdstorm_backend.write.directories import make_directory, retried

if TYPE_CHECKING:
    from typing_extensions import Self

_logger = logging.getLogger(__name__)


_NAMES = frozenset(codecs.compression_names())


def get_compressions() -> set[str]:
    """Return the names of all compressions, with and without levels, such as ``"zstd:1"``."""
    return set(_NAMES)


def is_compression(algo: str | None) -> bool:
    """Whether `algo` is the name of a compression, possibly with a level."""
    return algo in _NAMES


def get_compression_extension(algo: str) -> str:
    """Return the file name extension of a compression, such as ``"zstd"``.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    """
    return codecs.extension(algo)


def compress(algo: str | None, data: bytes) -> bytes:
    """Compress `data`, or return it unchanged if `algo` is None.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    """
    return data if algo is None else bytes(codecs.compress(algo, [data]))


def decompress(algo: str | None, data: bytes) -> bytes:
    """Decompress `data`, or return it unchanged if `algo` is None.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    ValueError, OSError
        If `data` was not compressed with `algo`.
    """
    if algo is None:
        return data
    return bytes(codecs.decompress_unsized(codecs.extension(algo), data, MAX_SHARD_BYTES))


class Compression:
    """A compression with its level, if it has levels.

    Parameters
    ----------
    level : int, optional
        One of `levels`; by default the compression's default level.

    Raises
    ------
    InvalidArgumentError
        If there is no such level. A `ValueError`.
    """

    extension: ClassVar[str] = ""
    levels: ClassVar[list[int]] = []

    def __init__(self, level: int | None = None) -> None:
        name = self.extension if level is None else f"{self.extension}:{level}"
        self.level = codecs.level_of(name)
        self._name = name

    def __init_subclass__(cls) -> None:
        cls.levels = codecs.levels_of(cls.extension)

    @classmethod
    def each(cls) -> Iterator[tuple[str, Self]]:
        """Yield each name of the compression, with and without a level, and an instance for it."""
        yield cls.extension, cls()
        for level in cls.levels:
            yield f"{cls.extension}:{level}", cls(level)

    def compress(self, data: bytes) -> bytes:
        """Compress `data`."""
        return compress(self._name, data)

    def decompress(self, data: bytes) -> bytes:
        """Decompress `data`; see the function `decompress`."""
        return decompress(self._name, data)


class Brotli(Compression):
    """Brotli, levels 0 to 11."""

    extension = "br"


class Bzip2(Compression):
    """Bzip2, levels 1 to 9."""

    extension = "bz2"


class Gzip(Compression):
    """Gzip, levels 0 to 9."""

    extension = "gz"


class Snappy(Compression):
    """Snappy, which has no levels."""

    extension = "snappy"


class Zstandard(Compression):
    """Zstandard, levels 1 to 22."""

    extension = "zstd"


def get_hashes() -> set[str]:
    """Return the names of all hashes; names that begin with xxh need the extra ``xxhash``."""
    return set(codecs.HASH_NAMES)


def is_hash(algo: str) -> bool:
    """Whether `algo` is the name of a hash."""
    return algo in codecs.HASH_NAMES


def get_hash(algo: str, data: bytes) -> str:
    """Return the hash of `data` in lower-case hexadecimal digits.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    MissingDependencyError
        If the hash needs xxhash, which is not installed.
    """
    return codecs.digest(algo, [data])


class CloudDownloader:
    """Downloads files from any store; a single object works for all stores."""

    @classmethod
    def get(cls, remote_dir: str | None = None) -> CloudDownloader:
        """Return a downloader for files under a URL or path.

        Raises
        ------
        UnsupportedURLError
            If the scheme of the URL is unknown. A `ValueError`.
        MissingDependencyError
            If the library for the scheme is not installed.
        """
        if remote_dir is not None:
            check_scheme(remote_dir)
        return cls()

    @classmethod
    def direct_download(
        cls, remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        """Download a file: `get`, `download` and `clean_up` in a single call."""
        cls.get(remote).download(remote, local, timeout)

    def download(self, remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Download a file, unless `local` already exists.

        Directories are created as needed. The file appears only once it is complete.

        Parameters
        ----------
        remote : str or None
            URL or path of the file.
        local : str
            Path of the copy.
        timeout : float
            Accepted for compatibility; object store clients have their own time limits.

        Raises
        ------
        InvalidArgumentError
            If `local` does not exist and `remote` is not given. A `ValueError`.
        FileNotFoundError
            If `remote` does not exist.
        CredentialsError, StorageError
            If the storage denies access or fails.
        """
        if os.path.exists(local):
            return
        if not remote:
            raise InvalidArgumentError(
                f"In the absence of local dataset, path to remote dataset must be provided: there "
                f"is no {local}, and no URL to copy it from"
            )
        directory, name = os.path.split(remote)
        copy_complete(Location.of(directory or "."), name, local)

    def clean_up(self) -> None:
        """Do nothing, since connections are closed with the process."""


#: MosaicML Streaming's classes for the individual stores, which are all one class here.
AzureDataLakeDownloader = CloudDownloader
AzureDownloader = CloudDownloader
DBFSDownloader = CloudDownloader
DatabricksUnityCatalogDownloader = CloudDownloader
GCSDownloader = CloudDownloader
LocalDownloader = CloudDownloader
S3Downloader = CloudDownloader


def download_file(remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT) -> None:
    """Download a file from any store to the path `local`, unless `local` already exists.

    See `CloudDownloader.download`.
    """
    CloudDownloader.direct_download(remote, local, timeout)


class CloudUploader:
    """Uploads files from a local directory to any store.

    Parameters
    ----------
    out : str or (str, str)
        A local directory, from which nothing is copied; a URL, to which files are copied from a new
        temporary directory; or a pair of a local directory and the URL or path to copy to.
    keep_local : bool
        Whether files stay in the local directory after they have been copied.
    progress_bar : bool
        Accepted for compatibility; no progress is shown.
    retry : int
        Number of retries after the storage fails.
    exist_ok : bool
        Whether the local directory may already contain files.

    Attributes
    ----------
    local : str
        The local directory, which is created if necessary.
    remote : str or None
        The URL or path that files are copied to; None if they are not copied.

    Raises
    ------
    InvalidArgumentError
        If `out` has a different form. A `ValueError`.
    UnsupportedURLError
        If the scheme of the URL is unknown. A `ValueError`.
    MissingDependencyError
        If the library for the scheme is not installed.
    DatasetExistsError
        If the local directory is not empty. A `FileExistsError`.
    """

    def __init__(
        self,
        out: str | tuple[str, str],
        keep_local: bool = False,
        progress_bar: bool = False,
        retry: int = 2,
        exist_ok: bool = False,
    ) -> None:
        local: str | None
        self.remote: str | None
        if isinstance(out, (str, os.PathLike)):
            path = os.fspath(out)
            local, self.remote = (None, path) if urlsplit(path).scheme else (path, None)
        elif isinstance(out, (tuple, list)) and len(out) == 2 and all(out):
            local, self.remote = map(os.fspath, out)
        else:
            raise InvalidArgumentError(
                "Invalid `out` argument: it must be a path, a URL, or a pair of a path and a URL, "
                f"found {out!r}"
            )
        if self.remote is not None:
            try:
                check_scheme(self.remote)
            except UnsupportedURLError as error:
                # Code that tries several kinds of storage looks for these words.
                raise UnsupportedURLError(f"Invalid Cloud provider prefix: {error}") from error
        self.keep_local = keep_local
        self.progress_bar = progress_bar
        self.retry = retry
        self.local = tempfile.mkdtemp(prefix="mdstorm-") if local is None else local
        os.makedirs(self.local, exist_ok=True)
        if os.listdir(self.local):
            if not exist_ok:
                raise DatasetExistsError(
                    f"Directory is not empty: {self.local}. Choose another, or pass exist_ok=True"
                )
            _logger.warning("%s is not empty; its files are kept", self.local)

    @classmethod
    def get(
        cls,
        out: str | tuple[str, str],
        keep_local: bool = False,
        progress_bar: bool = False,
        retry: int = 2,
        exist_ok: bool = False,
    ) -> CloudUploader:
        """Return an uploader; see the class for its arguments and errors."""
        return cls(out, keep_local, progress_bar, retry, exist_ok)

    def upload_file(self, filename: str) -> None:
        """Upload a file from the local directory; do nothing if `remote` is None.

        Without `keep_local`, the local file is removed afterwards.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        CredentialsError, StorageError
            If the storage denies access, or fails.
        """
        if self.remote is None:
            return
        path = os.path.join(self.local, filename)
        folder, name = os.path.split(filename)
        target = Location.of(os.path.join(self.remote, folder) if folder else self.remote)
        data = Location.of(os.path.dirname(path)).read(name)
        make_directory(target)
        retried(target, lambda: target.write(name, [data]), self.retry)
        self.clear_local(path)

    def list_objects(self, prefix: str | None = None) -> list[str]:
        """Return the files whose paths begin with `prefix`, sorted.

        If `remote` is a URL, these are the files under it, as paths within the bucket or container;
        otherwise, they are the files in the local directory, as paths on this machine.
        """
        if self.remote is not None and urlsplit(self.remote).scheme:
            root, location = urlsplit(self.remote).path.lstrip("/"), Location.of(self.remote)
        else:
            root, location = self.local, Location.of(self.local)
        paths = (os.path.join(root, name) for name in location.list_names())
        wanted = os.path.join(root, prefix or "")
        return sorted(path for path in paths if path.startswith(wanted))

    def clear_local(self, local: str) -> None:
        """Remove the file `local`, unless `keep_local` is true."""
        if not self.keep_local and os.path.isfile(local):
            os.remove(local)


#: MosaicML Streaming's classes for the individual stores, which are all one class here.
AzureDataLakeUploader = CloudUploader
AzureUploader = CloudUploader
DBFSUploader = CloudUploader
DatabricksUnityCatalogUploader = CloudUploader
GCSUploader = CloudUploader
LocalUploader = CloudUploader
S3Uploader = CloudUploader
