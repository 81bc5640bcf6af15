"""TensorFlow: `tf.data` datasets of namedtuples."""

from __future__ import annotations

from mdstorm_backend.loaders.tf.tf_batches import make_tf_dataset, warn_about_keras
from mdstorm_backend.loaders.tf.tf_columns import (
    ColumnSpec,
    check_nulls_of,
    made_of,
    spec_of_column,
    stored_specs,
    to_tf,
)
from mdstorm_backend.loaders.tf.tf_strategies import in_cluster, without_sharding
from mdstorm_backend.loaders.tf.tf_traced import traced_dataset

__all__ = [
    "ColumnSpec",
    "check_nulls_of",
    "in_cluster",
    "made_of",
    "make_tf_dataset",
    "spec_of_column",
    "stored_specs",
    "to_tf",
    "traced_dataset",
    "warn_about_keras",
    "without_sharding",
]
