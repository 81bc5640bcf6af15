"""Log to MLflow which data a run reads, and which rows and files each of its steps has.

`log_input` logs the data as an input of the run. `log_state` appends the state of a loader, each
time that it begins or resumes. From these states, `load_trace` later lists the rows of any step, on
any rank, and reads them. Only rank 0 logs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm import _datasets
from mdstorm._datasets import LoggedData, StoredPlace
from mdstorm._mlflow import LoggedDataset, StoredData
from mdstorm._readers import Reader
from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    MissingDependencyError,
    StateMismatchError,
)
from mdstorm_backend.base import check_integer, require
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.display import shown_url
from mdstorm_backend.kinds import Openable, open_stored
from mdstorm_backend.loaders import ReaderOptions, RunTrace, Trace, trace_of_state
from mdstorm_backend.order import StreamShape, find_world
from mdstorm_backend.storage import FilesBelow

mlflow: Any = require("mlflow")

__all__ = ["LoggedDataset", "RunTrace", "StoredData", "load_trace", "log_input", "log_state"]

#: Name of a loader in a run, unless the user passes another one.
_DEFAULT = "training"
_FOLDER = "mdstorm"
_STATES, _ROWS, _FILES = "states.json", "rows.npz", "files.parquet"
#: What an earlier version logged: one state of one loader.
_EARLIER = "state.json"
_NAME = re.compile(r"[\w-][\w .-]*")
#: Stores of MLflow in databases, and what they need that `mlflow-skinny` does not install.
_DATABASES = "(sqlite|mysql|postgresql|mssql)[+:]"
_MODULES_OF_DATABASES = ("sqlalchemy", "alembic")
#: What must be equal in all states of a loader, besides the data.
_OF_LOADER = ("order", "settings", "filters", "predicate", "transform")
#: The loaders whose states this process has logged, by run and name.
_logged: dict[tuple[str, str], ref[Any]] = {}


def log_input(source: Any, context: str = "training") -> LoggedDataset | None:
    """Log the data of a converter, reader, loader or dataset as an input of the active run.

    MLflow shows the URL, or a table's name and version; the content identity as the digest; the
    columns; and the number of rows. If rows were chosen by ``rows=`` or ``where=``, the profile
    also has their hash and the conditions, and their numbers are the array ``rows`` of the artifact
    ``mdstorm/<context>/rows.npz``.

    Parameters
    ----------
    source : SparkDatasetConverter, Reader, StreamingDataLoader, dataset or TF dataset
        What is read; a converter stands for all rows of its files. Loaders over a reader are
        accepted, and what `mdstorm_backend.open_dataset` returns.
    context : str
        How the run uses the data, for MLflow.

    Returns
    -------
    LoggedDataset or None
        The data as logged, for ``mlflow.log_metric(…, dataset=)``; None on other ranks than 0.

    Raises
    ------
    ArgumentTypeError
        If `source` is something else.
    InvalidArgumentError
        If no run is active.
    """
    if find_world().rank != 0:
        return None
    data = _data_of(source)
    dataset = LoggedDataset(data)
    with _explaining_stores():
        run = _Run.active()
        dataset.log(run.client, run.id, context)
        if data.chosen is not None:
            run.log_rows(_checked_name(context), data)
    return dataset


def log_state(
    loader: Any,
    context: str = "training",
    *,
    name: str | None = None,
    step: int | None = None,
    file_versions: bool = False,
) -> None:
    """Append the state of a loader, reader or TF dataset to the active run, for `load_trace`.

    Call this before training, and again after a state was loaded. The artifact
    ``mdstorm/<name>/states.json`` has the states, each with the step at which it begins, how the
    loader makes batches, and which data it reads.

    Parameters
    ----------
    loader : StreamingDataLoader, Reader, TF dataset
        What is iterated, with a method ``state_dict``.
    context : str
        How the run uses the loader.
    name : str, optional
        Name of the loader in the run; by default the context.
    step : int, optional
        Number of the step that comes next. By default, the first state in the run begins at step 0,
        and a later one at the step that its position has in the run.
    file_versions : bool
        Whether to log the size and version of each file that is read by ``files=``, in the artifact
        ``mdstorm/<name>/files.parquet``. `load_trace` then notices files that have changed. This
        takes a request for each file, or a look at a local one.

    Raises
    ------
    ArgumentTypeError
        If `loader` is something else.
    InvalidArgumentError
        If no run is active, the run has states of another loader under the name, or the step is not
        known.
    StateMismatchError
        If the loader cannot give a state.
    """
    if find_world().rank != 0:
        return
    name = _checked_name(context if name is None else name)
    check_integer("step", step, lowest=0)
    options = _options_of(loader)
    logged = LoggedData.of(options.dataset, getattr(options.order, "streams", ()))
    if options.drops_rows:
        logged = replace(logged, reason="a transform, filter, predicate or cache may drop rows")
    batches = {key: getattr(options, key) for key in ("batch_size", "drop_last", "num_workers")}
    batches["ranks_per_node"] = options.in_world().order.world.local_size
    state = _State(step or 0, loader.state_dict(), batches, logged)
    files = _datasets.file_versions(options.dataset) if file_versions else {}
    with _explaining_stores():
        run = _Run.active()
        states = run.states(name)
        if states:
            _check_same_loader(run, name, states[-1], state)
        if states and step is None and not logged.reason:
            _check_not_begun_again(run, name, loader, state)
            state = state._replace(step=_next_step(states, state, options, name))
        run.log_states(name, [*states, state])
        if options.dataset.chosen is not None:
            run.log_rows(name, options.dataset)
        if files:
            run.log_files(name, files)
    _logged[run.id, name] = ref(loader)


def load_trace(
    run_id: str,
    loader: str | None = None,
    *,
    url: Any = None,
    storage_options: dict[str, Any] | None = None,
    files_below: FilesBelow = (),
) -> RunTrace:
    """Return which rows the steps of a run had, on any rank, from the states that it logged.

    Parameters
    ----------
    run_id : str
        Id of the run, in which `log_state` was called.
    loader : str, optional
        Name of the loader; by default ``"training"``, or the only one.
    url : str, list of str, or table of pyiceberg or deltalake, optional
        URL of the data if they have moved, were copied, or have a signature; several for several
        streams. A table has the credentials of its catalog, which the run does not have. With `url`
        only the fingerprint is compared, not the times of files.
    storage_options : dict, optional
        Options of the file system.
    files_below : list of str or mapping, optional
        The directories below which files in columns are read, as for a reader. The run does not
        decide this, since whoever wrote it could name any directory. By default, only files in the
        dataset's own directory are read. If the run read a list of files, this is `url`, if given.

    Returns
    -------
    RunTrace
        ``rows(step, rank)`` lists the numbers of a step's rows, ``where(row)`` and ``find(rows)``
        find rows, and ``dataset`` has the rows: ``trace.dataset[trace.rows(step)]``.

    Raises
    ------
    InvalidArgumentError
        If the run has no state of this loader, or only reading shows which rows a step had: create
        the loader again with the same arguments, and call its ``trace(state)``. When a row is read
        whose file is not in an allowed directory.
    DatasetChangedError
        If the data have changed. A file in a column that has changed raises it when it is read.
    StateMismatchError
        If the data at `url` are others.
    """
    with _explaining_stores():
        run = _Run(run_id, mlflow.MlflowClient())
        name = run.loader_named(loader)
        states, rows, files = run.states(name), run.rows(name), run.files(name)
    logged = states[-1].data
    if logged.reason:
        raise InvalidArgumentError(
            f"the run does not show which rows its steps had, because {logged.reason}: create the "
            "loader again with the same arguments, and call its trace(state)"
        )
    if logged.rows is not None and rows is None:
        raise InvalidArgumentError(
            "the run read with rows= or where=, and did not log the chosen rows: create the loader "
            "again with the same arguments, and call its trace(state)"
        )
    data = logged.open(url, storage_options)
    for state in states:
        state.data.check(data, is_moved=url is not None)
    read, streams = logged.choose(data, rows), logged.streams(data)
    parts = [(state.step, state.trace(read, streams)) for state in states]
    return RunTrace(parts, logged.with_files(data, files_below, files))


class _State(NamedTuple):
    """A state of a loader in a run, and the step at which it begins."""

    step: int
    state: Mapping[str, Any]
    batches: Mapping[str, Any]
    data: LoggedData

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> _State:
        """Return a state that was logged."""
        if "data" in values:
            return cls(**{**values, "data": LoggedData.from_json(values["data"])})
        # An earlier version logged one state, with the place of the data.
        rows = values["state"]["mdstorm"].get("rows")
        data = LoggedData(StoredPlace(**values["source"]), rows=rows)
        return cls(0, values["state"], values["batches"], data)

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {**self._asdict(), "data": self.data.to_json()}

    def trace(self, data: Any, streams: Sequence[StreamShape]) -> Trace:
        """Return which rows the batches from here on have."""
        return trace_of_state(self.state, data, streams=streams, **self.batches)

    @property
    def settings(self) -> dict[str, Any]:
        """What all states of a loader have in common, besides the data."""
        return {key: self.state["mdstorm"].get(key) for key in _OF_LOADER}


class _Run(NamedTuple):
    """A run, and what mdstorm keeps in it: a folder of artifacts for each loader."""

    id: str
    client: Any

    @classmethod
    def active(cls) -> _Run:
        """Return the active run, or the one that a launcher has begun, without starting one."""
        active = mlflow.active_run()
        run_id = os.environ.get("MLFLOW_RUN_ID") if active is None else active.info.run_id
        if not run_id:
            raise InvalidArgumentError(
                "no run of MLflow is active: call this in a `with mlflow.start_run():` block"
            )
        return cls(run_id, mlflow.MlflowClient())

    def loader_named(self, name: str | None) -> str:
        """Return the name of a loader whose states the run has.

        Raises
        ------
        InvalidArgumentError
            If there is none.
        """
        found = self._listed(_FOLDER)
        names = [one for one in found if _STATES in self._listed(f"{_FOLDER}/{one}")]
        if _EARLIER in found and _DEFAULT not in names:
            names.append(_DEFAULT)
        if not names:
            raise InvalidArgumentError(
                f"this run has no `log_state`: {self.id} has no states of mdstorm. Call "
                "mdstorm.mlflow.log_state(loader) in the run, before training"
            )
        if name is None:
            name = _DEFAULT if _DEFAULT in names or len(names) > 1 else names[0]
        if name not in names:
            raise InvalidArgumentError(
                f"this run has no `log_state` of a loader {name!r}, only of {sorted(names)}: pass "
                "one of these as loader="
            )
        return name

    def states(self, name: str) -> list[_State]:
        """Return the states of a loader, in the order in which they were logged."""
        if _STATES in self._listed(f"{_FOLDER}/{name}"):
            found = json.loads(self._read(f"{_FOLDER}/{name}/{_STATES}"))
            return [_State.from_json(one) for one in found["states"]]
        if name == _DEFAULT and _EARLIER in self._listed(_FOLDER):
            return [_State.from_json(json.loads(self._read(f"{_FOLDER}/{_EARLIER}")))]
        return []

    def log_states(self, name: str, states: Sequence[_State]) -> None:
        """Replace the states of a loader."""
        found = {"states": [one.to_json() for one in states]}
        self.client.log_dict(self.id, found, f"{_FOLDER}/{name}/{_STATES}")

    def rows(self, name: str) -> Any:
        """Return the numbers of the rows that a loader chose; None if the run has none."""
        for folder in (f"{_FOLDER}/{name}", _FOLDER):
            if _ROWS in self._listed(folder):
                return np.load(BytesIO(self._read(f"{folder}/{_ROWS}")))["rows"]
        return None

    def log_rows(self, name: str, data: Any) -> None:
        """Log the numbers of the rows that a dataset consists of."""
        content, rows = BytesIO(), np.asarray(data.stored_numbers(range(len(data))))
        np.savez_compressed(content, rows=rows)
        self._write(f"{_FOLDER}/{name}/{_ROWS}", content.getvalue())

    def files(self, name: str) -> dict[str, set[str]]:
        """Return the versions of the files that a loader read, by path."""
        found: dict[str, set[str]] = {}
        if _FILES in self._listed(f"{_FOLDER}/{name}"):
            table = pq.read_table(pa.py_buffer(self._read(f"{_FOLDER}/{name}/{_FILES}")))
            for path, version in zip(*(one.to_pylist() for one in table.columns), strict=True):
                found.setdefault(path, set()).add(version)
        return found

    def log_files(self, name: str, versions: Mapping[str, str]) -> None:
        """Add the versions of files to those that the run has."""
        pairs = {(path, one) for path, several in self.files(name).items() for one in several}
        paths, found = zip(*sorted(pairs | versions.items()), strict=True)
        content = pa.BufferOutputStream()
        pq.write_table(pa.table({"path": paths, "version": found}), content)
        self._write(f"{_FOLDER}/{name}/{_FILES}", content.getvalue())

    def _listed(self, folder: str) -> list[str]:
        """Return the names in a folder of artifacts."""
        return [Path(one.path).name for one in self.client.list_artifacts(self.id, folder)]

    def _read(self, path: str) -> bytes:
        with TemporaryDirectory() as directory:
            return Path(self.client.download_artifacts(self.id, path, directory)).read_bytes()

    def _write(self, path: str, content: Any) -> None:
        folder, _, name = path.rpartition("/")
        with TemporaryDirectory() as directory:
            local = Path(directory, name)
            local.write_bytes(content)
            self.client.log_artifact(self.id, str(local), folder)


def _checked_name(name: str) -> str:
    """Return a loader's name, after checking that it can be the name of a folder."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"the name of a loader, by default its context, must consist of letters, digits, "
            f"spaces, '_', '-' and '.', found {name!r}: pass name="
        )
    return name


def _check_same_loader(run: _Run, name: str, before: _State, state: _State) -> None:
    """Raise InvalidArgumentError if the last state of a run is not one of the same loader."""
    wrong = [key for key, value in state.settings.items() if before.settings[key] != value]
    if before.data.rows != state.data.rows:
        wrong.append("rows")
    if before.data.reason or not wrong:
        return
    raise _of_another_loader(name, f"its {', '.join(wrong)} differ")


def _of_another_loader(name: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the run has states of another loader under the name {name!r} ({reason}): pass another "
        "name=, for example the loader's context"
    )


def _check_not_begun_again(run: _Run, name: str, loader: Any, state: _State) -> None:
    """Raise InvalidArgumentError for a second loader of this process that has read nothing."""
    before = _logged.get((run.id, name))
    is_unread = state.state["epoch"] <= 0 and not state.state["sample_in_epoch"]
    if before is not None and before() is not loader and is_unread:
        raise InvalidArgumentError(
            f"the run has states of another loader under the name {name!r}, and this one has read "
            "nothing, so its step is not known: pass another name=, or step= if it takes the "
            "place of that loader"
        )


def _next_step(states: Sequence[_State], state: _State, options: ReaderOptions, name: str) -> int:
    """Return the step of a run at which a state begins, after the states before it.

    Raises
    ------
    InvalidArgumentError
        If it begins after none of their steps, or is of another loader.
    """
    streams = getattr(options.order, "streams", ())
    begin = state.trace(options.dataset, streams)
    for before in reversed(states):
        try:
            batches = before.trace(options.dataset, streams).batches_until(begin)
        except StateMismatchError as error:
            raise _of_another_loader(name, f"{error}") from error
        if batches is not None and before.state["shuffle_seed"] == state.state["shuffle_seed"]:
            step: int = before.step + batches
            return step
    raise InvalidArgumentError(
        f"the state of the loader {name!r} is not where a step of the run ends, so it is not known "
        "which step comes next: pass step="
    )


@contextmanager
def _explaining_stores() -> Iterator[None]:
    """Name the modules that a store of MLflow needs and that are not installed."""
    try:
        yield
    except (ModuleNotFoundError, mlflow.exceptions.MlflowException) as error:
        uri = mlflow.get_tracking_uri()
        needs = _MODULES_OF_DATABASES if re.match(_DATABASES, uri) else ()
        missing = [name for name in needs if find_spec(name) is None]
        if isinstance(error, ModuleNotFoundError) and error.name and error.name not in missing:
            missing.append(error.name)
        if not missing:
            raise
        raise MissingDependencyError(
            f"MLflow's store at {shown_url(uri)} needs {' and '.join(missing)}, which "
            f"mlflow-skinny does not install: pip install {' '.join(missing)}",
            extra="",
            name=missing[0],
        ) from error


def _data_of(source: Any) -> Any:
    """Return the dataset that a source reads."""
    if isinstance(source, (SampleDataset, Openable)):
        return open_stored(source)
    return _options_of(source).dataset


def _options_of(source: Any) -> ReaderOptions:
    """Return what a reader, loader or TF dataset reads, and how."""
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
