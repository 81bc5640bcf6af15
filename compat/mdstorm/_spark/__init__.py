"""The converter, which turns DataFrames into datasets, and datasets into loaders."""

from __future__ import annotations

from mdstorm._spark.context_managers import TFDatasetContextManager, TorchDatasetContextManager
from mdstorm._spark.converter import SparkDatasetConverter
from mdstorm._spark.copies import (
    ENVIRONMENT_VARIABLE,
    PETASTORM_CONF,
    checked_directory,
    configured_parent,
)
from mdstorm._spark.deletion import delete_dir, register_delete_dir_handler, unfinished_copies
from mdstorm._spark.kept_copies import KeptCopy, list_copies
from mdstorm._spark.make_converter import DEFAULT_ROW_GROUP_SIZE_BYTES, make_spark_converter

__all__ = [
    "DEFAULT_ROW_GROUP_SIZE_BYTES",
    "ENVIRONMENT_VARIABLE",
    "PETASTORM_CONF",
    "KeptCopy",
    "SparkDatasetConverter",
    "TFDatasetContextManager",
    "TorchDatasetContextManager",
    "checked_directory",
    "configured_parent",
    "delete_dir",
    "list_copies",
    "make_spark_converter",
    "register_delete_dir_handler",
    "unfinished_copies",
]
