"""Open datasets, which consist of a schema and shards, and read samples or batches."""

from __future__ import annotations

from mdstorm_backend.datasets.added_columns import (
    AddedColumns,
    add_columns,
    check_file_bytes,
    check_files,
    check_row_numbers,
    with_added,
)
from mdstorm_backend.datasets.chosen_rows import ChosenRows, check_choice, choose_rows
from mdstorm_backend.datasets.dataset import Dataset, describe_place, open_mds
from mdstorm_backend.datasets.dataset_view import DatasetView
from mdstorm_backend.datasets.description import describe_dataset, typed_columns
from mdstorm_backend.datasets.filters import Filters, Mask, Term, check_where
from mdstorm_backend.datasets.row_choice import check_rows, numbers_hash
from mdstorm_backend.datasets.sample_dataset import SampleDataset, Storage
from mdstorm_backend.read import fingerprint_of, fingerprints_of

__all__ = [
    "AddedColumns",
    "ChosenRows",
    "Dataset",
    "DatasetView",
    "Filters",
    "Mask",
    "SampleDataset",
    "Storage",
    "Term",
    "add_columns",
    "check_choice",
    "check_file_bytes",
    "check_files",
    "check_row_numbers",
    "check_rows",
    "check_where",
    "choose_rows",
    "describe_dataset",
    "describe_place",
    "fingerprint_of",
    "fingerprints_of",
    "numbers_hash",
    "open_mds",
    "typed_columns",
    "with_added",
]
