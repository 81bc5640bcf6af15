"""`StoredPlace`: where stored data are, as values that a run logs, and from which they open."""

from __future__ import annotations

from typing import Any, NamedTuple

from mdstorm_backend.datasets import Dataset, open_streams
from mdstorm_backend.display import shown_url, shown_urls
from mdstorm_backend.kinds import open_stored
from mdstorm_backend.tables import AsOf


class StoredPlace(NamedTuple):
    """Where stored data are, as `mdstorm.mlflow.StoredData`, but always with the names of files."""

    uri: str | list[str]
    version: int | None = None
    files: list[str] | None = None

    @classmethod
    def of(cls, data: Any) -> StoredPlace:
        """Return where the data of an open dataset are."""
        stored = data.stored
        if isinstance(stored, open_streams.JoinedDataset):
            return cls([shown_url(part.url) for part in stored.parts])
        version = stored.table_version
        if version is not None or _is_whole(stored):
            return cls(shown_url(stored.url), version)
        root = stored.location.url
        names = [url[len(root.rstrip("/")) + 1 :] for url in stored.file_urls]
        return cls(shown_url(root), None, names)

    def open(self, storage_options: dict[str, Any] | None = None, *, is_named: bool = False) -> Any:
        """Open the data as they are stored, without reading rows.

        Parameters
        ----------
        storage_options : dict, optional
            Options of the file system.
        is_named : bool
            Whether the user has named the URL. If it comes from a run, some files below it have no
            directory of their own, since the run could name any directory above them.
        """
        if isinstance(self.uri, list):
            parts = [self._replace(uri=uri).open(storage_options) for uri in self.uri]
            return open_streams.JoinedDataset(parts)
        if self.files is None:
            as_of = None if self.version is None else AsOf(self.version)
            return open_stored(self.uri, storage_options=storage_options, as_of=as_of)
        urls = [f"{self.uri.rstrip('/')}/{name}" for name in self.files]
        return open_stored(
            urls, directory=self.uri, is_named=is_named, storage_options=storage_options
        )

    @property
    def shown(self) -> str:
        """The URL or name, for messages."""
        return shown_urls([self.uri] if isinstance(self.uri, str) else self.uri)


def _is_whole(stored: Any) -> bool:
    """Whether the URL of a dataset stands for all of its files."""
    if isinstance(stored, Dataset):
        return stored.whole == stored.fingerprint
    return stored.url == stored.location.url or len(stored.files) == 1
