"""Log to MLflow which data a run reads, and which rows and files each of its steps has.

`log_input` logs the data as an input of the run. `log_state` appends the state of a loader, each
time that it begins or resumes. From these states, `load_trace` later lists the rows of any step, on
any rank, and reads them. Only rank 0 logs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from weakref import ref

from mdstorm import _datasets
from mdstorm._datasets import LoggedData
from mdstorm._mlflow import (
    Follower,
    LoggedDataset,
    LoggedState,
    LoggedStates,
    Run,
    StoredData,
    batches_of,
    explaining_stores,
    of_another_loader,
    step_of_loaded,
)
from mdstorm._readers import Reader
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.base import check_integer, require
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.kinds import Openable, open_stored
from mdstorm_backend.loaders import Loader, ReaderOptions, RunTrace
from mdstorm_backend.order import find_world
from mdstorm_backend.storage import FilesBelow

mlflow: Any = require("mlflow")

__all__ = ["LoggedDataset", "RunTrace", "StoredData", "load_trace", "log_input", "log_state"]

_NAME = re.compile(r"[\w-][\w .-]*")
#: The loaders whose states this process has logged last, by run and name, and what follows them.
_logged: dict[tuple[str, str], tuple[ref[Any], Follower | None]] = {}


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
    with explaining_stores():
        run = Run.active()
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

    Call this before training, and again in each process that continues it. From then on, the run
    follows the loader: where an iteration begins elsewhere than the last one ended, because a loop
    was left early, a state was loaded or an epoch set, this position is appended with its step.

    Steps are the batches that the loops over the loader use. A peek that has been left is none, and
    batches that are left out by ``skip_batches`` have no step. The folder ``mdstorm/<name>/states``
    of the run's artifacts has the states, each with its step and how the loader makes batches.

    Parameters
    ----------
    loader : StreamingDataLoader, Reader, TF dataset
        What is iterated, with a method ``state_dict``.
    context : str
        How the run uses the loader.
    name : str, optional
        Name of the loader in the run; by default the context.
    step : int, optional
        Number of the step that comes next. By default, the first state in the run begins at step 0.
        In the process that logged the last state, batches are counted. In another one, the state
        that was loaded has the step at which the run came to it.
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
        known, for example because several processes that resumed the run came to the same state.
    StateMismatchError
        If the loader cannot give a state.
    """
    if find_world().rank != 0:
        return
    name = _checked_name(context if name is None else name)
    check_integer("step", step, lowest=0)
    reading = _reading_of(loader)
    options: ReaderOptions = reading.options
    logged = LoggedData.of(options.dataset, getattr(options.order, "streams", ()))
    if options.drops_rows:
        logged = replace(logged, reason="a transform, filter, predicate or cache may drop rows")
    is_between = isinstance(reading, Loader) and not reading.is_held
    found = reading.next_state() if is_between else loader.state_dict()
    state = LoggedState(step or 0, found, batches_of(options), logged)
    files = _datasets.file_versions(options.dataset) if file_versions else {}
    with explaining_stores():
        run = Run.active()
        states = LoggedStates(run, name)
        if states.found:
            _check_same_loader(states, state)
        if states.found and step is None and not logged.reason:
            state = _next(states, state, loader, reading)
        states.append(state)
        if options.dataset.chosen is not None:
            run.log_rows(name, options.dataset)
        if files:
            run.log_files(name, files)
    follower = None
    if isinstance(reading, Loader) and not logged.reason:
        follower = reading.on_pass[run.id, name] = Follower(states, loader, reading)
    _logged[run.id, name] = ref(loader), follower


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
    with explaining_stores():
        run = Run(run_id, mlflow.MlflowClient())
        name = run.loader_named(loader)
        states, rows, files = LoggedStates(run, name).found, run.rows(name), run.files(name)
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
    parts = [(one.step, one.unknown or one.trace(read, streams)) for one in states]
    return RunTrace(parts, logged.with_files(data, files_below, files))


def _checked_name(name: str) -> str:
    """Return a loader's name, after checking that it can be the name of a folder."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"the name of a loader, by default its context, must consist of letters, digits, "
            f"spaces, '_', '-' and '.', found {name!r}: pass name="
        )
    return name


def _check_same_loader(states: LoggedStates, state: LoggedState) -> None:
    """Raise InvalidArgumentError if the last state of a run is not one of the same loader."""
    before = states.found[-1]
    wrong = [key for key, value in state.settings.items() if before.settings[key] != value]
    if before.data.rows != state.data.rows:
        wrong.append("rows")
    if wrong and not before.data.reason:
        raise of_another_loader(states.name, f"its {', '.join(wrong)} differ")


def _next(states: LoggedStates, state: LoggedState, source: Any, reading: Any) -> LoggedState:
    """Return the state of a loader with the step of the run that begins there.

    Raises
    ------
    InvalidArgumentError
        If it is not known, or the run's states are of another loader.
    """
    before, follower = _logged.get((states.run.id, states.name), (None, None))
    is_unread = state.state["epoch"] <= 0 and not state.state["sample_in_epoch"]
    if before is not None and before() is not source and is_unread:
        raise InvalidArgumentError(
            f"the run has states of another loader under the name {states.name!r}, and this one "
            "has read nothing, so its step is not known: pass another name=, or step= if it takes "
            "the place of that loader"
        )
    is_own = follower is not None and follower.is_last_of(states)
    here, loaded = reading.options.in_world(), reading.epochs.loaded
    if not isinstance(reading, Loader) or (loaded is None and not is_own):
        begin = state.trace(here.dataset, getattr(here.order, "streams", ()))
        step = states.step_of(begin, state.state, here, was_saved=False, is_own=is_own)
        return state._replace(step=step)
    used = reading.used.since_load(reading.epochs.loads)
    is_same = follower is not None and follower.follows(source, reading)
    if follower is not None and is_own and (loaded is None or is_same):
        first, used, follows = follower.step, 0 if is_same else used, True
    else:
        assert loaded is not None
        first, follows = step_of_loaded(states, loaded, here, is_own=is_own), False
    if first is None or used is None:
        raise InvalidArgumentError(
            f"it is not known which step of the loader {states.name!r} comes next, because "
            "TensorFlow itself has taken batches, or the run does not show the steps before: pass "
            "step="
        )
    # What is left of a row group that a reader has begun belongs to the step that has begun.
    is_begun = reading.is_held and bool(state.state["mdstorm"].get("skip"))
    return state._replace(step=max(first + used - is_begun, 0), follows=follows)


def _data_of(source: Any) -> Any:
    """Return the dataset that a source reads."""
    if isinstance(source, (SampleDataset, Openable)):
        return open_stored(source)
    return _reading_of(source).options.dataset


def _reading_of(source: Any) -> Any:
    """Return the engine's loader of a reader, loader or TF dataset.

    If PyTorch makes the batches, this is a dataset, which also has ``options`` and ``epochs``.
    """
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
    return reading
