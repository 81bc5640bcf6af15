"""What mdstorm logs to runs of MLflow: data as inputs, and where loaders begin."""

from __future__ import annotations

from mdstorm._mlflow.follower import Follower, batches_of, step_of_loaded
from mdstorm._mlflow.inputs import LoggedDataset, StoredData
from mdstorm._mlflow.run import Run, explaining_stores
from mdstorm._mlflow.states import LoggedState, LoggedStates, of_another_loader

__all__ = [
    "Follower",
    "LoggedDataset",
    "LoggedState",
    "LoggedStates",
    "Run",
    "StoredData",
    "batches_of",
    "explaining_stores",
    "of_another_loader",
    "step_of_loaded",
]
