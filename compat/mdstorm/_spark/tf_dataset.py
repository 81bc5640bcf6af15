"""Make the dataset of ``make_tf_dataset``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mdstorm._readers.options import sample_order
from mdstorm._readers.schema_fields import delivered_name
from mdstorm._spark.converter_files import ReadFiles
from mdstorm._tensorflow import declared_spec
from mdstorm.transform import TransformSpec
from mdstorm_backend.base import check_integer
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.loaders import tf as tf_loaders


def make_dataset(files: ReadFiles, batch_size: int, prefetch: int | None) -> Any:
    """Make the dataset, for eager and graph mode, of namedtuples unless inputs are named."""
    check_integer("prefetch", prefetch, lowest=-1)
    files = files.begun()
    arguments, inputs = files.arguments, files.inputs
    capacity = arguments.shuffling_queue_capacity  # of which TensorFlow refuses negative ones
    check_integer("shuffling_queue_capacity", capacity, lowest=0)
    is_split = tf_loaders.in_cluster()
    order, spec = sample_order(arguments, is_shared=is_split), arguments.transform_spec

    def options() -> ReaderOptions:
        options = files.options(files.dataset(), order)
        files.warn_of_decimals(options, "TensorFlow")
        # TensorFlow leaves out the rows of others: that all are read is no cause for a warning.
        return replace(options, on_pass=None) if is_split else options

    def specs(options: ReaderOptions) -> Sequence[tf_loaders.ColumnSpec]:
        names = inputs.columns(options.delivered)
        if spec is None:
            return tf_loaders.stored_specs(options, names)
        return _transformed_specs(options, spec, names)

    chosen = bool(arguments.schema_fields)
    return tf_loaders.make_tf_dataset(
        options,
        batch_size=batch_size,
        prefetch=prefetch,
        specs=specs,
        type_name=f"{delivered_name('inferred_schema', chosen=chosen, spec=spec)}_view",
        element=inputs if inputs else None,
    )


def _transformed_specs(
    options: ReaderOptions, spec: TransformSpec, names: Sequence[str]
) -> list[tf_loaders.ColumnSpec]:
    edited = spec._mdstorm_edited()
    return [
        declared_spec(name, *edited[name][1:3])
        if name in edited
        else tf_loaders.spec_of_column(options.schema[name], options.images)
        if name in options.schema
        else tf_loaders.ColumnSpec(name, "bool")
        for name in names
    ]
