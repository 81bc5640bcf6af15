"""Implementation of the datasets in `mdstorm.tf_utils`."""

from __future__ import annotations

from mdstorm_backend.base import require

require("tensorflow")  # the error explains what to install

from mdstorm._tensorflow.columns import (  # noqa: E402
    batch_spec,
    column_for_tf,
    date_to_nsec_from_epoch,
    refuse_nulls_in_rows,
    specs_of_ngram,
    specs_of_schema,
    value_for_tf,
)
from mdstorm._tensorflow.datasets import (  # noqa: E402
    dataset_of_ngrams,
    dataset_of_rows,
    warn_of_decimals_in,
)

__all__ = [
    "batch_spec",
    "column_for_tf",
    "dataset_of_ngrams",
    "dataset_of_rows",
    "date_to_nsec_from_epoch",
    "refuse_nulls_in_rows",
    "specs_of_ngram",
    "specs_of_schema",
    "value_for_tf",
    "warn_of_decimals_in",
]
