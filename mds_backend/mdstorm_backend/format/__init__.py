"""The MDS format: encodings, schemas, indexes and shard layouts. No file is opened here."""

from __future__ import annotations

from mdstorm_backend.format.compression import EXTENSIONS
from mdstorm_backend.format.encodings.decode_images import image_array
from mdstorm_backend.format.encodings.image_memory import MAX_IMAGE_BYTES
from mdstorm_backend.format.encodings.numbers import DTYPES
from mdstorm_backend.format.index import INDEX_NAME
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.shard_info import CLAIM_NAME, MARKER_NAME
from mdstorm_backend.format.sizes import parse_size
from mdstorm_backend.format.stored_schema import without_form
from mdstorm_backend.format.type_plan import (
    become_floats,
    check_decimals,
    check_float_dtype,
    plan_types,
)
from mdstorm_backend.format.values.arrow_types import (
    SparkType,
    decimals_to_floats,
    holds_decimals,
    is_number,
    numpy_dtype,
    plain_type,
    plain_values,
)
from mdstorm_backend.format.values.batch import (
    Batch,
    Values,
    are_null,
    as_arrow,
    common_type,
    gather_binary,
    gather_fixed,
    num_rows,
    slice_batch,
    take_values,
)
from mdstorm_backend.format.values.nested_lists import (
    depth_of,
    list_type,
    lists_of_arrays,
    shapes_of,
    with_nan_elements,
)
from mdstorm_backend.format.values.python_objects import (
    beyond_nanoseconds,
    date_objects,
    python_objects,
)

__all__ = [
    "CLAIM_NAME",
    "DTYPES",
    "EXTENSIONS",
    "INDEX_NAME",
    "MARKER_NAME",
    "MAX_IMAGE_BYTES",
    "Batch",
    "Column",
    "Schema",
    "SparkType",
    "Values",
    "are_null",
    "as_arrow",
    "become_floats",
    "beyond_nanoseconds",
    "check_decimals",
    "check_float_dtype",
    "common_type",
    "date_objects",
    "decimals_to_floats",
    "depth_of",
    "gather_binary",
    "gather_fixed",
    "holds_decimals",
    "image_array",
    "is_number",
    "list_type",
    "lists_of_arrays",
    "num_rows",
    "numpy_dtype",
    "parse_size",
    "plain_type",
    "plain_values",
    "plan_types",
    "python_objects",
    "shapes_of",
    "slice_batch",
    "take_values",
    "with_nan_elements",
    "without_form",
]
