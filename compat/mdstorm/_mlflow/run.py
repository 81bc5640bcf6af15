"""`Run`: a run of MLflow, and the artifacts that mdstorm keeps in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm.errors import InvalidArgumentError, MissingDependencyError
from mdstorm_backend.base import require
from mdstorm_backend.display import shown_url

mlflow: Any = require("mlflow")

_FOLDER = "mdstorm"
_ROWS, _FILES = "rows.npz", "files.parquet"
#: The folders of a loader's states and of the descriptions of its data, one file each.
_STATES, _DATA = "states", "data"
#: What an earlier version logged: all states of a loader; and before that, one state of one loader.
_ALL_STATES, _ONE_STATE = "states.json", "state.json"
#: Name of a loader in a run, unless the user passes another one.
DEFAULT = "training"
_RUNNING = "RUNNING"
#: Stores of MLflow in databases, and what they need that `mlflow-skinny` does not install.
_DATABASES = "(sqlite|mysql|postgresql|mssql)[+:]"
_MODULES_OF_DATABASES = ("sqlalchemy", "alembic")


class Run(NamedTuple):
    """A run, and what mdstorm keeps in it: a folder of artifacts for each loader."""

    id: str
    client: Any

    @classmethod
    def active(cls) -> Run:
        """Return the active run, or the one that a launcher has begun, without starting one."""
        active = mlflow.active_run()
        run_id = os.environ.get("MLFLOW_RUN_ID") if active is None else active.info.run_id
        if not run_id:
            raise InvalidArgumentError(
                "no run of MLflow is active: call this in a `with mlflow.start_run():` block"
            )
        return cls(run_id, mlflow.MlflowClient())

    @property
    def is_running(self) -> bool:
        """Whether the run has not ended; only a run that is not active here takes a request."""
        active = mlflow.active_run()
        if active is not None and active.info.run_id == self.id:
            return True
        return bool(self.client.get_run(self.id).info.status == _RUNNING)

    def loader_named(self, name: str | None) -> str:
        """Return the name of a loader whose states the run has.

        Raises
        ------
        InvalidArgumentError
            If there is none.
        """
        found = self._listed(_FOLDER)
        names = [
            one for one in found if {_STATES, _ALL_STATES} & {*self._listed(f"{_FOLDER}/{one}")}
        ]
        if _ONE_STATE in found and DEFAULT not in names:
            names.append(DEFAULT)
        if not names:
            raise InvalidArgumentError(
                f"this run has no `log_state`: {self.id} has no states of mdstorm. Call "
                "mdstorm.mlflow.log_state(loader) in the run, before training"
            )
        if name is None:
            name = DEFAULT if DEFAULT in names or len(names) > 1 else names[0]
        if name not in names:
            raise InvalidArgumentError(
                f"this run has no `log_state` of a loader {name!r}, only of {sorted(names)}: pass "
                "one of these as loader="
            )
        return name

    def earlier_states(self, name: str) -> list[Any]:
        """Return the states of a loader, as JSON values, that an earlier version logged."""
        if _ALL_STATES in self._listed(f"{_FOLDER}/{name}"):
            logged = json.loads(self._read_artifact(f"{_FOLDER}/{name}/{_ALL_STATES}"))
            states: list[Any] = logged["states"]
            return states
        if name == DEFAULT and _ONE_STATE in self._listed(_FOLDER):
            return [json.loads(self._read_artifact(f"{_FOLDER}/{_ONE_STATE}"))]
        return []

    def states(self, name: str) -> tuple[list[Any], list[Any]]:
        """Return the states of a loader and the data to which they refer, as JSON values."""
        folder = f"{_FOLDER}/{name}"
        if _STATES not in self._listed(folder):
            return [], []
        states, data = (self._read_all(f"{folder}/{part}") for part in (_STATES, _DATA))
        return states, data

    def log_state(self, name: str, number: int, state: Mapping[str, Any]) -> None:
        """Log the state with a number, or replace it."""
        self.client.log_dict(self.id, state, f"{_FOLDER}/{name}/{_STATES}/{number:06}.json")

    def log_data(self, name: str, number: int, data: Mapping[str, Any]) -> None:
        """Log the data with a number, to which states refer."""
        self.client.log_dict(self.id, data, f"{_FOLDER}/{name}/{_DATA}/{number:06}.json")

    def rows(self, name: str) -> Any:
        """Return the numbers of the rows that a loader chose; None if the run has none."""
        for folder in (f"{_FOLDER}/{name}", _FOLDER):
            if _ROWS in self._listed(folder):
                return np.load(BytesIO(self._read_artifact(f"{folder}/{_ROWS}")))["rows"]
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
            table = pq.read_table(pa.py_buffer(self._read_artifact(f"{_FOLDER}/{name}/{_FILES}")))
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

    def _read_artifact(self, path: str) -> bytes:
        with TemporaryDirectory() as directory:
            return Path(self.client.download_artifacts(self.id, path, directory)).read_bytes()

    def _read_all(self, folder: str) -> list[Any]:
        """Return the JSON values in the files of a folder, in the order of their names."""
        with TemporaryDirectory() as directory:
            found = Path(self.client.download_artifacts(self.id, folder, directory))
            return [json.loads(one.read_bytes()) for one in sorted(found.iterdir())]

    def _write(self, path: str, content: Any) -> None:
        folder, _, name = path.rpartition("/")
        with TemporaryDirectory() as directory:
            local = Path(directory, name)
            local.write_bytes(content)
            self.client.log_artifact(self.id, str(local), folder)


@contextmanager
def explaining_stores() -> Iterator[None]:
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
