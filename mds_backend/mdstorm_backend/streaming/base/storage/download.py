"""Download single files: the mirror of ``streaming.base.storage.download``."""

from __future__ import annotations

import os
import posixpath

from mdstorm_backend.drop_in.absent import ABSENT
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.storage import Location, check_scheme, copy_complete
from mdstorm_backend.streaming.base.constant import DEFAULT_TIMEOUT

__all__ = [
    "AzureDataLakeDownloader",
    "AzureDownloader",
    "CloudDownloader",
    "DBFSDownloader",
    "DatabricksUnityCatalogDownloader",
    "GCSDownloader",
    "LocalDownloader",
    "S3Downloader",
    "download_file",
]


class CloudDownloader:
    """Copies files of any storage to this machine. One object serves all of them."""

    @classmethod
    def get(cls, remote_dir: str | None = None) -> CloudDownloader:
        """Return a downloader for what lies below a URL or a path.

        Raises
        ------
        UnsupportedURLError
            If its scheme is unknown. A `ValueError`.
        MissingDependencyError
            If the library for it is not installed.
        """
        if remote_dir is not None:
            check_scheme(remote_dir)
        return cls()

    @classmethod
    def direct_download(
        cls, remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        """Copy one file: `get`, `download` and `clean_up` in one."""
        cls.get(remote).download(remote, local, timeout)

    def download(self, remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Copy a file, unless it is there already.

        Directories are made as needed. The file appears complete or not at all.

        Parameters
        ----------
        remote : str or None
            URL or path of the file.
        local : str
            Path of the copy.
        timeout : float
            Taken for compatibility: storages have time limits of their own.

        Raises
        ------
        InvalidArgumentError
            If there is no copy and `remote` is not given. A `ValueError`.
        FileNotFoundError
            If there is no such file.
        CredentialsError, StorageError
            If the storage denies access, or fails.
        """
        if os.path.exists(local):
            return
        if not remote:
            raise InvalidArgumentError(
                f"In the absence of local dataset, path to remote dataset must be provided: there "
                f"is no {local}, and no URL to copy it from"
            )
        directory, name = posixpath.split(remote)
        copy_complete(Location.of(directory or "."), name, local)

    def clean_up(self) -> None:
        """Do nothing: connections are closed with the process."""


#: The names by storage: one class serves all.
AzureDataLakeDownloader = CloudDownloader
AzureDownloader = CloudDownloader
DBFSDownloader = CloudDownloader
DatabricksUnityCatalogDownloader = CloudDownloader
GCSDownloader = CloudDownloader
LocalDownloader = CloudDownloader
S3Downloader = CloudDownloader


def download_file(remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT) -> None:
    """Copy a file of any storage to the path `local`, unless it is there already.

    See `CloudDownloader.download`.
    """
    CloudDownloader.direct_download(remote, local, timeout)


__getattr__ = ABSENT.refusing(__name__)
