"""`LoggedData`: which data a loader read and how, as JSON values, from which they are opened again.

A run keeps them, so that its rows can be listed and read later. They contain no credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from mdstorm._datasets.decoded_source import (
    DecodedSource,
    stored_unischema,
    with_declared_partitions,
)
from mdstorm._datasets.field_decoders import Floats
from mdstorm.errors import DatasetChangedError, MissingFileError, StateMismatchError
from mdstorm_backend.base import map_files
from mdstorm_backend.datasets import (
    AddedColumns,
    ChosenRows,
    Dataset,
    DatasetView,
    add_columns,
    open_streams,
)
from mdstorm_backend.display import shown_url, shown_urls
from mdstorm_backend.kinds import open_stored
from mdstorm_backend.order import StreamShape
from mdstorm_backend.storage import MAX_FILE_BYTES, FilesBelow, NamedFiles
from mdstorm_backend.tables import AsOf

#: Why the rows of steps cannot be listed from the run alone.
_ONLY_PARTS = (
    "the loader leaves out or splits row groups, by filters, a selector, an n-gram or "
    "shuffle_row_drop_partitions"
)


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


@dataclass(frozen=True)
class LoggedData:
    """Which data a loader read, and how; each attribute is a JSON value.

    Attributes
    ----------
    place : StoredPlace
        Where the data are.
    identity, fingerprint : str or None
        Identities of the data as stored; None if an earlier version did not log them.
    has_fields : bool
        Whether values are decoded by a schema of Petastorm.
    floats : mapping
        The arguments of `Floats`.
    files : mapping or None
        The arguments that add columns with the content of files.
    rows : str or None
        Identifies the chosen rows.
    where : str
        The conditions that chose them, to be shown.
    weights : list of mapping
        For each stream, the argument that decides how many of its samples an epoch has.
    reason : str
        Why steps cannot be listed without the loader; empty if they can.
    """

    place: StoredPlace
    identity: str | None = None
    fingerprint: str | None = None
    has_fields: bool = False
    floats: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Any] | None = None
    rows: str | None = None
    where: str = ""
    weights: Sequence[Mapping[str, Any]] = ()
    reason: str = ""

    @classmethod
    def of(cls, dataset: Any, streams: Sequence[StreamShape] = ()) -> LoggedData:
        """Return the description of what a loader reads.

        Parameters
        ----------
        dataset : SampleDataset
            What it reads: a stored dataset, or a view of one.
        streams : sequence of StreamShape
            Its streams with their weights, if its order has streams.
        """
        found: dict[str, Any] = {"rows": dataset.chosen, "where": dataset.where}
        while isinstance(dataset, DatasetView):
            if isinstance(dataset, DecodedSource):
                found["has_fields"] = dataset.unischema is not None
                found["floats"] = asdict(dataset.floats)
            elif isinstance(dataset, AddedColumns):
                found |= _files_of(dataset)
            elif not isinstance(dataset, ChosenRows):
                found["reason"] = _ONLY_PARTS
            dataset = dataset.source
        if getattr(dataset, "starts", None) is not None:
            found["reason"] = _ONLY_PARTS
        if len(streams) > 1:
            found["weights"] = [
                {one.weighting: getattr(one, one.weighting)} if one.weighting else {}
                for one in streams
            ]
        place, identity = StoredPlace.of(dataset), dataset.content_identity()
        return cls(place, identity, dataset.fingerprint, **found)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> LoggedData:
        """Return the description with these attributes."""
        return cls(**{**values, "place": StoredPlace(**values["place"])})

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as JSON values."""
        return {**vars(self), "place": self.place._asdict()}

    def open(self, url: Any = None, storage_options: dict[str, Any] | None = None) -> Any:
        """Open all of the data, decoded as the loader decodes them.

        Parameters
        ----------
        url : str or list of str, optional
            Where they are now; by default where they were.
        storage_options : dict, optional
            Options of the file system.
        """
        place = self.place if url is None else self.place._replace(uri=url)
        stored = place.open(storage_options, is_named=url is not None)
        if not self.has_fields and not self.floats:
            return stored
        unischema = stored_unischema(stored) if self.has_fields else None
        if unischema is not None:
            stored = with_declared_partitions(stored, unischema)
        return DecodedSource(stored, unischema, Floats(**self.floats))

    def check(self, data: Any, *, is_moved: bool) -> None:
        """Compare opened data with what was logged.

        Parameters
        ----------
        data : SampleDataset
            The data, from `open`.
        is_moved : bool
            Whether they are elsewhere now, so that their files may have other times.

        Raises
        ------
        DatasetChangedError
            If they were written again.
        StateMismatchError
            If other data are elsewhere.
        """
        stored = data.stored
        if self.fingerprint not in (None, stored.fingerprint):
            found = f"their fingerprint is {stored.fingerprint}, and the run logged "
            if is_moved:
                raise StateMismatchError(
                    f"the data at {stored.url} are not those that the run read at "
                    f"{self.place.shown}: {found}{self.fingerprint}. Pass the url of a copy"
                )
            raise DatasetChangedError(
                f"the data at {stored.url} have changed since the run: {found}{self.fingerprint}. "
                "Restore them, or pass the url of a copy",
                url=stored.url,
            )
        if not is_moved and self.identity not in (None, found := stored.content_identity()):
            raise DatasetChangedError(
                f"the data at {stored.url} have been written again since the run: the sizes or "
                f"times of their files have changed (their content identity is {found}, and the "
                f"run logged {self.identity}). If they were only copied or restored, pass "
                f"url={self.place.uri!r} to compare the fingerprint alone",
                url=stored.url,
            )

    def choose(self, data: Any, rows: Any) -> Any:
        """Return the data with only the rows that the loader chose, by their numbers."""
        return data if self.rows is None else ChosenRows(data, rows, self.rows, self.where)

    def streams(self, data: Any) -> list[StreamShape]:
        """Return the streams of opened data, with their weights."""
        if not self.weights:
            return []
        sizes = [part.shard_sizes for part in data.stored.parts]
        return [StreamShape(*one, **how) for *one, how in zip(sizes, self.weights, strict=True)]

    def with_files(self, data: Any, below: FilesBelow, versions: Mapping[str, Any]) -> Any:
        """Return the data with the content of files that columns name.

        Parameters
        ----------
        data : SampleDataset
            The data.
        below : sequence or mapping
            As `files_below` of a reader. It is not logged: who writes a run does not decide what
            is read by those who load it.
        versions : mapping of str to list of str
            The versions of the files, by path. A file that has another one raises
            DatasetChangedError when it is read.
        """
        if self.files is None:
            return data
        given = {"row_numbers": None, "max_file_bytes": MAX_FILE_BYTES, **self.files}
        added: Any = add_columns(data, {**given, "files_below": below})
        if versions:
            reader = added.file_reader
            read = partial(_read_logged, reader.fetch, added.named_files, versions)
            added.file_reader = replace(reader, fetch=read)
        return added


def _files_of(dataset: AddedColumns) -> dict[str, Any]:
    """Return the arguments that add columns of the content of files; nothing if none do."""
    reader, named = dataset.file_reader, dataset.named_files
    if reader is None or named is None:
        return {}
    return {"files": {"files": dict(reader.columns), "max_file_bytes": named.max_bytes}}


def file_versions(dataset: Any) -> dict[str, str]:
    """Return the size and version of each file that a loader reads, by its path in the data.

    Each takes a request, or a look at the local file. A file that does not exist has none.
    """
    while not isinstance(dataset, AddedColumns) or dataset.named_files is None:
        if not isinstance(dataset, DatasetView):
            return {}
        dataset = dataset.source
    source: Any = dataset.source
    reader, files = dataset.file_reader, dataset.named_files
    assert reader is not None
    assert files is not None
    columns = sorted({*reader.columns.values()})
    table = source.to_table(columns)
    paths = [path for name in columns for path in table[name].unique().to_pylist()]
    paths = [path for path in dict.fromkeys(paths) if path is not None]
    return dict(zip(paths, map_files(partial(_version_of, files), paths), strict=True))


def _version_of(files: NamedFiles, path: str) -> str:
    try:
        return files.identity(path)
    except MissingFileError:
        return ""


def _read_logged(
    fetch: Callable[[str], bytes], files: NamedFiles, versions: Mapping[str, Any], path: str
) -> bytes:
    """Return the content of a file that has not changed since it was logged."""
    logged = versions.get(path, [])
    if logged and {found := _version_of(files, path)} != {*logged}:
        raise DatasetChangedError(
            f"{path} has changed since the run: it had the size and version {logged}, and has "
            f"{found!r} now. Restore the file to see what the run read",
            url=path,
        )
    return fetch(path)
