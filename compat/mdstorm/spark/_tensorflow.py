"""The dataset of ``make_tf_dataset``."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdstorm.errors import InvalidArgumentError
from mdstorm.spark._files import open_files
from mdstorm.spark._reader_arguments import ReaderArguments
from mdstorm.transform import EditedField, TransformSpec
from mdstorm_backend.frameworks.reader_options import ReaderOptions
from mdstorm_backend.frameworks.tf_dataset import make_tf_dataset, stored_specs
from mdstorm_backend.frameworks.tf_specs import ColumnSpec, spec_of_column

__all__ = ["make_dataset"]

#: NumPy types that arrive as something else; all others keep their name.
_DTYPES = {
    np.str_: "string",
    np.bytes_: "string",
    decimal.Decimal: "string",
    np.datetime64: "int64",
    datetime.date: "int64",
    np.timedelta64: "int64",
    np.uint16: "int32",
    np.uint32: "int64",
    np.bool_: "bool",
}


def make_dataset(
    url: str,
    file_urls: Sequence[str],
    arguments: ReaderArguments,
    batch_size: int,
    prefetch: int | None,
) -> Any:
    """Make the dataset of namedtuples, for eager and for graph mode."""
    order = arguments.order()
    spec: TransformSpec | None = arguments.others.get("transform_spec")

    def specs(options: ReaderOptions) -> Sequence[ColumnSpec]:
        return stored_specs(options) if spec is None else _transformed_specs(options, spec)

    return make_tf_dataset(
        lambda: arguments.options(open_files(url, file_urls), order),
        batch_size=batch_size,
        prefetch=prefetch,
        specs=specs,
        type_name="inferred_schema_view" if spec is None else "inferred_schema_transformed_view",
    )


def _transformed_specs(options: ReaderOptions, spec: TransformSpec) -> list[ColumnSpec]:
    edited = {field[0]: field for field in spec.edit_fields}
    return [
        _declared_spec(edited[name])
        if name in edited
        else spec_of_column(options.schema[name])
        if name in options.schema
        else ColumnSpec(name, "bool")
        for name in options.delivered
    ]


def _declared_spec(field: EditedField) -> ColumnSpec:
    name, numpy_type, shape, _ = field
    if numpy_type in _DTYPES:
        return ColumnSpec(name, _DTYPES[numpy_type], tuple(shape))
    try:
        return ColumnSpec(name, np.dtype(numpy_type).name, tuple(shape))
    except TypeError as error:
        raise InvalidArgumentError(
            f"Unknown mapping of numpy {numpy_type!r} to tensorflow dtype: declare column {name!r} "
            "in edit_fields with a NumPy type"
        ) from error
