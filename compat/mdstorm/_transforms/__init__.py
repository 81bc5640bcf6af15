"""Run a `TransformSpec` function in threads or processes."""

from __future__ import annotations

from mdstorm._transforms.pandas_transform import PandasTransform, batch_to_frame, is_missing
from mdstorm._transforms.row_transform import RowTransform, declared_dtype
from mdstorm._transforms.worker_pool import WorkerPool, function_identity, pickle_function

__all__ = [
    "PandasTransform",
    "RowTransform",
    "WorkerPool",
    "batch_to_frame",
    "declared_dtype",
    "function_identity",
    "is_missing",
    "pickle_function",
]
