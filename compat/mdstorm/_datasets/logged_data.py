"""`LoggedData`: which data a loader read and how, as JSON values, from which they are opened again.

A run keeps them, so that its rows can be listed and read later. They contain no credentials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mdstorm._datasets.decoded_source import (
    DecodedSource,
    stored_unischema,
    with_declared_partitions,
)
from mdstorm._datasets.field_decoders import Floats
from mdstorm._datasets.file_versions import check_versions
from mdstorm._datasets.stored_place import StoredPlace
from mdstorm.errors import DatasetChangedError, StateMismatchError
from mdstorm_backend.datasets import AddedColumns, ChosenRows, DatasetView, add_columns
from mdstorm_backend.order import StreamShape
from mdstorm_backend.storage import MAX_FILE_BYTES, FilesBelow

#: Why the rows of steps cannot be listed from the run alone.
_ONLY_PARTS = (
    "the loader leaves out or splits row groups, by filters, a selector, an n-gram or "
    "shuffle_row_drop_partitions"
)


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
        attributes: dict[str, Any] = {"rows": dataset.chosen, "where": dataset.where}
        while isinstance(dataset, DatasetView):
            if isinstance(dataset, DecodedSource):
                attributes["has_fields"] = dataset.unischema is not None
                attributes["floats"] = asdict(dataset.floats)
            elif isinstance(dataset, AddedColumns):
                attributes |= _files_of(dataset)
            elif not isinstance(dataset, ChosenRows):
                attributes["reason"] = _ONLY_PARTS
            dataset = dataset.source
        if getattr(dataset, "starts", None) is not None:
            attributes["reason"] = _ONLY_PARTS
        if len(streams) > 1:
            attributes["weights"] = [
                {one.weighting: getattr(one, one.weighting)} if one.weighting else {}
                for one in streams
            ]
        place, identity = StoredPlace.of(dataset), dataset.content_identity()
        return cls(place, identity, dataset.fingerprint, **attributes)

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
            fingerprints = f"their fingerprint is {stored.fingerprint}, and the run logged "
            if is_moved:
                raise StateMismatchError(
                    f"the data at {stored.url} are not those that the run read at "
                    f"{self.place.shown}: {fingerprints}{self.fingerprint}. Pass the url of a copy"
                )
            raise DatasetChangedError(
                f"the data at {stored.url} have changed since the run: {fingerprints}"
                f"{self.fingerprint}. Restore them, or pass the url of a copy",
                url=stored.url,
            )
        if not is_moved and self.identity not in (None, identity := stored.content_identity()):
            raise DatasetChangedError(
                f"the data at {stored.url} have been written again since the run: the sizes or "
                f"times of their files have changed (their content identity is {identity}, and the "
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
            check_versions(added, versions)
        return added


def _files_of(dataset: AddedColumns) -> dict[str, Any]:
    """Return the arguments that add columns of the content of files; nothing if none do."""
    reader, named = dataset.file_reader, dataset.named_files
    if reader is None or named is None:
        return {}
    return {"files": {"files": dict(reader.columns), "max_file_bytes": named.max_bytes}}
