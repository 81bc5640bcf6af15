"""`FetchedFiles`: read the files that columns name, with retries and copies on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from mdstorm_backend.cache.directory import CacheOptions
from mdstorm_backend.cache.download import with_retries
from mdstorm_backend.cache.kept_files import keep_file
from mdstorm_backend.storage import NamedFiles

#: Folder for copies in a cache directory, whose other files are shards.
_FOLDER = ".mdstorm-files"
#: With more, a thread might read most files of a batch while others wait.
_LOCAL_FILES_AT_ONCE = 8


@dataclass(frozen=True)
class FetchedFiles:
    """Files that are named by their paths or URLs, as `NamedFiles` reads them.

    If the options have a directory or a limit, files that are not on a local disk are copied to the
    cache directory. Of several processes and threads, one fetches a file, and the others wait. Each
    time a copy is used, the store is asked for the size and version of the file, in one request. A
    copy of another version is replaced.

    Attributes
    ----------
    files : NamedFiles
        Which files are allowed, and how they are read.
    options : CacheOptions
        The attempts, the timeout, the directory and its limit.
    url, fingerprint : str
        The dataset, whose default cache directory has the copies if only a limit is given.
    """

    files: NamedFiles
    options: CacheOptions = field(default_factory=CacheOptions)
    url: str = ""
    fingerprint: str = ""

    @property
    def at_once(self) -> int:
        """How many files a thread should read in a row: one, if each is a request to a store."""
        is_local = all(location.is_local_disk for location in self.files.locations)
        return _LOCAL_FILES_AT_ONCE if is_local else 1

    def read(self, path: str) -> bytes:
        """Return the content of a file; for errors see `NamedFiles.read`."""
        location, name = self.files.find(path)
        if location.is_local_disk:
            return self.files.read(path)
        attempts = partial(with_retries, location, name, self.options)
        fetch: Callable[[], bytes] = partial(attempts, partial(self.files.read, path))
        keeps = (self.options.directory, self.options.limit) != (None, None)
        if not keeps or not (identity := attempts(partial(self.files.identity, path))):
            return fetch()
        key = hashlib.blake2s(location.file_url(name).encode(), digest_size=16).hexdigest()
        content = keep_file(
            self.url,
            self.fingerprint,
            f"{_FOLDER}/{key}",
            identity,
            lambda _: fetch(),
            directory=self.options.directory,
            limit=self.options.limit,
        )
        return bytes(content)
