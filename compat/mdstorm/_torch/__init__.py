"""Implementation of the loaders in `mdstorm.pytorch`."""

from __future__ import annotations

from mdstorm._torch.columns import decimal_friendly_collate, first_rows, sanitize_pytorch_types
from mdstorm._torch.loader import (
    ROWS_AT_A_TIME,
    ColumnLoader,
    LoaderBase,
    RowLoader,
    collated,
    tensors,
    transformed,
)

__all__ = [
    "ROWS_AT_A_TIME",
    "ColumnLoader",
    "LoaderBase",
    "RowLoader",
    "collated",
    "decimal_friendly_collate",
    "first_rows",
    "sanitize_pytorch_types",
    "tensors",
    "transformed",
]
