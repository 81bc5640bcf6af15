"""Log to MLflow which data a run trained on, and which rows each of its steps had.

`log_input` logs the data as an input of the run. `log_state` keeps a loader's state in the run.
From that, `load_trace` later lists the rows of any step. Only rank 0 logs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mdstorm._datasets import ReadDataset, open_stored
from mdstorm._readers import Reader
from mdstorm._spark import SparkDatasetConverter
from mdstorm.errors import ArgumentTypeError
from mdstorm.reader import make_batch_reader
from mdstorm_backend.base import require
from mdstorm_backend.display import shown_url
from mdstorm_backend.loaders import ReaderOptions, Trace, trace_of_state
from mdstorm_backend.order import find_world
from mdstorm_backend.read import SampleSource
from mdstorm_backend.tables import AsOf

mlflow: Any = require("mlflow")
_Dataset, _DatasetSource = mlflow.data.dataset.Dataset, mlflow.data.dataset_source.DatasetSource

__all__ = ["StoredData", "load_trace", "log_input", "log_state"]

_STATE, _ROWS = "mdstorm/state.json", "mdstorm/rows.npz"
#: Maximum length of a dataset's name in MLflow.
_LONGEST_NAME = 500


class StoredData(_DatasetSource):  # type: ignore[misc, valid-type]  # from an optional library
    """Where logged data are, as MLflow's ``DatasetSource``.

    Attributes
    ----------
    uri : str
        URL of the data, or the name of a table as ``uc://catalog.schema.table``. Credentials and
        values of its query are hidden.
    version : int or None
        Version of a Delta table, or snapshot of an Iceberg table.
    """

    def __init__(self, uri: str, version: int | None = None) -> None:
        self.uri, self.version = shown_url(uri), version

    @staticmethod
    def _get_source_type() -> str:
        return "mdstorm"

    def load(self, **storage_options: Any) -> Any:
        """Open the data, without reading rows.

        Parameters
        ----------
        **storage_options
            Options of the file system.
        """
        return _opened(self.uri, self.version, storage_options)

    @staticmethod
    def _can_resolve(raw_source: Any) -> bool:
        return False

    @classmethod
    def _resolve(cls, raw_source: Any) -> StoredData:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON values."""
        return {"uri": self.uri, "version": self.version}

    @classmethod
    def from_dict(cls, source_dict: Mapping[str, Any]) -> StoredData:
        """Return the source with these attributes."""
        return cls(**source_dict)


mlflow.data.dataset_source_registry.register_dataset_source(StoredData)


class _LoggedDataset(_Dataset):  # type: ignore[misc, valid-type]
    """A dataset as MLflow logs it."""

    def __init__(self, data: SampleSource) -> None:
        source = _source_of(data)
        self._profile: dict[str, Any] = {"num_rows": len(data)}
        if data.chosen is not None:
            self._profile |= {"rows": data.chosen, "where": data.where}
        self._schema = {column.name: column.encoding for column in data.schema}
        name = source.uri.removeprefix("uc://")[-_LONGEST_NAME:]
        super().__init__(source, name, data.content_identity())

    @property
    def profile(self) -> dict[str, Any]:
        return self._profile

    @property
    def schema(self) -> dict[str, str]:
        return self._schema

    def to_dict(self) -> dict[str, str]:
        described = {"schema": json.dumps(self.schema), "profile": json.dumps(self.profile)}
        return {**super().to_dict(), **described}


def log_input(source: Any, context: str = "training") -> None:
    """Log the data of a converter, reader, loader or dataset as an input of the active run.

    MLflow shows the URL, or a table's name and version; the content identity as the digest; the
    columns with their encodings; and the number of rows. If rows were chosen by ``rows=`` or
    ``where=``, the profile also has their hash and the conditions, and their numbers are the array
    ``rows`` of the artifact ``mdstorm/rows.npz``.

    Parameters
    ----------
    source : SparkDatasetConverter, Reader, StreamingDataLoader, StreamingDataset, TF dataset
        What is read; a converter stands for all of its rows. Loaders over a reader are accepted.
    context : str
        How the run uses the data, for MLflow.

    Raises
    ------
    ArgumentTypeError
        If `source` is something else.
    """
    if find_world().rank != 0:
        return
    if isinstance(source, SparkDatasetConverter):
        version, options = source._mdstorm_version, source._mdstorm_storage_options
        urls = source.cache_dir_url or source.file_urls
        with make_batch_reader(urls, version=version, storage_options=options) as reader:
            log_input(reader, context)
        return
    data = _options_of(source).dataset
    mlflow.log_input(_LoggedDataset(data), context)
    if data.chosen is not None:
        with TemporaryDirectory() as directory:
            path = Path(directory, Path(_ROWS).name)
            np.savez_compressed(path, rows=np.asarray(data.stored_numbers(range(len(data)))))
            mlflow.log_artifact(str(path), str(Path(_ROWS).parent))


def log_state(loader: Any) -> None:
    """Keep the state of a loader, reader or TF dataset in the active run, for `load_trace`.

    The artifact ``mdstorm/state.json`` has the state, with the seed and the number of ranks, and
    how the loader makes batches. Call this before training: steps are counted from here.

    Parameters
    ----------
    loader : StreamingDataLoader, Reader, TF dataset
        What is iterated, with a method ``state_dict``.

    Raises
    ------
    ArgumentTypeError
        If `loader` is something else.
    StateMismatchError
        If it cannot give a state.
    """
    if find_world().rank != 0:
        return
    options = _options_of(loader)
    batches = {name: getattr(options, name) for name in ("batch_size", "drop_last", "num_workers")}
    source = _source_of(options.dataset).to_dict()
    mlflow.log_dict({"state": loader.state_dict(), "batches": batches, "source": source}, _STATE)


def load_trace(
    run_id: str, *, url: str | None = None, storage_options: dict[str, Any] | None = None
) -> Trace:
    """Return which rows the steps of a run had, on any rank, from the state that it logged.

    Parameters
    ----------
    run_id : str
        Id of the run, in which `log_state` was called.
    url : str, optional
        URL of the data, if they have moved, or have a signature; by default the logged one.
    storage_options : dict, optional
        Options of the file system.

    Returns
    -------
    Trace
        ``rows(step, rank)`` lists the numbers of a step's rows, and ``where(row)`` finds a row.

    Raises
    ------
    InvalidArgumentError
        If only reading shows which rows a step had, or the run read with ``rows=`` or ``where=``:
        make the loader again with the same arguments, and call its ``trace(state)``.
    StateMismatchError
        If the data have changed.
    """
    logged = mlflow.artifacts.load_dict(f"runs:/{run_id}/{_STATE}")
    source = logged["source"]
    data = _opened(url or source["uri"], source["version"], storage_options or {})
    return trace_of_state(logged["state"], data, **logged["batches"])


def _source_of(data: SampleSource) -> StoredData:
    return StoredData(data.url, ReadDataset(data).table_version)


def _opened(url: str, version: int | None, storage_options: dict[str, Any]) -> SampleSource:
    as_of = None if version is None else AsOf(version)
    return open_stored(url, storage_options=storage_options or None, as_of=as_of)


def _options_of(source: Any) -> ReaderOptions:
    """Return what a reader, loader or dataset reads, and how."""
    if isinstance(source, Reader):
        reading: Any = source._mdstorm_cursor.loader
    elif hasattr(source, "_runs"):  # a TF dataset
        reading = source._runs().loader
    elif hasattr(source, "_mdstorm_loop"):  # None if PyTorch makes the batches
        reading = source._mdstorm_loop() or source.dataset._mdstorm
    else:
        reading = getattr(source, "_mdstorm", None)
    if not hasattr(reading, "options"):
        raise ArgumentTypeError(
            "this needs a converter, reader, loader or dataset of mdstorm, found "
            f"{type(source).__name__}: pass what you iterate over"
        )
    options: ReaderOptions = reading.options
    return options
