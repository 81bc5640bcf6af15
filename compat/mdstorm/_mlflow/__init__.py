"""What mdstorm logs to runs of MLflow."""

from __future__ import annotations

from mdstorm._mlflow.inputs import LoggedDataset, StoredData

__all__ = ["LoggedDataset", "StoredData"]
