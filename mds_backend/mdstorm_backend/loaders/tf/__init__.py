"""TensorFlow: `tf.data` datasets of namedtuples."""

from __future__ import annotations

from mdstorm_backend.loaders.tf.tf_batches import check_nulls_of, make_tf_dataset, stored_specs
from mdstorm_backend.loaders.tf.tf_specs import (
    ColumnSpec,
    in_cluster,
    made_of,
    spec_of_column,
    without_sharding,
)
from mdstorm_backend.loaders.tf.tf_tensors import to_tf

__all__ = [
    "ColumnSpec",
    "check_nulls_of",
    "in_cluster",
    "made_of",
    "make_tf_dataset",
    "spec_of_column",
    "stored_specs",
    "to_tf",
    "without_sharding",
]
