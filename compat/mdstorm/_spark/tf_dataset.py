"""Make the dataset of ``make_tf_dataset``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.options import reader_options
from mdstorm._readers.sample_order import sample_order
from mdstorm._spark.files import open_files
from mdstorm._tensorflow.fields import declared_spec
from mdstorm._transforms.transform_spec import TransformSpec
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.loaders.tf import ColumnSpec, make_tf_dataset, spec_of_column, stored_specs


def make_dataset(
    url: str,
    file_urls: Sequence[str],
    arguments: ReaderArguments,
    batch_size: int,
    prefetch: int | None,
) -> Any:
    """Make the dataset of namedtuples, for eager and for graph mode."""
    order, spec = sample_order(arguments), arguments.transform_spec

    def options() -> ReaderOptions:
        return reader_options(arguments, open_files(url, file_urls, arguments), order)

    def specs(options: ReaderOptions) -> Sequence[ColumnSpec]:
        return stored_specs(options) if spec is None else _transformed_specs(options, spec)

    return make_tf_dataset(
        options,
        batch_size=batch_size,
        prefetch=prefetch,
        specs=specs,
        type_name="inferred_schema_view" if spec is None else "inferred_schema_transformed_view",
    )


def _transformed_specs(options: ReaderOptions, spec: TransformSpec) -> list[ColumnSpec]:
    edited = spec.edited()
    return [
        declared_spec(name, *edited[name][1:3])
        if name in edited
        else spec_of_column(options.schema[name])
        if name in options.schema
        else ColumnSpec(name, "bool")
        for name in options.delivered
    ]
