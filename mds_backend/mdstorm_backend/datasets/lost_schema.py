"""Recover the logical schema of a dataset whose index another program rewrote.

Every shard's header also holds the columns, and the nulls of the shard. Only the index knew the
null counts of the whole dataset.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.array_forms import with_form
from mdstorm_backend.format.index import Index
from mdstorm_backend.format.layout import parse_header
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.format.stored_schema import parse_columns
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.storage import Buffer


def restored(index: Index, first: Buffer, *, url: str) -> Index:
    """Return the index with the columns of a shard's header, if it carries any.

    Parameters
    ----------
    index : Index
        An index without a schema.
    first : bytes-like
        The first shard, uncompressed.
    url : str
        Where the shard came from, for error messages.

    Raises
    ------
    CorruptDatasetError
        If the shard does not hold what the index says.
    """
    _, extra = parse_header(np.frombuffer(first, np.uint8), index.shards[0], url=url)
    columns: Any = extra.get("columns")
    if isinstance(columns, list) and all(isinstance(column, dict) for column in columns):
        columns = [_with_form(column, index) for column in columns]
    return replace(index, extra={**index.extra, "columns": columns}) if columns else index


def _with_form(column: dict[str, Any], index: Index) -> dict[str, Any]:
    """Return a column with the lengths and shapes that all shards together have."""
    bare = {**column, "length": None, "shape": None, "uneven": False}
    try:
        (parsed,) = parse_columns([bare])
    except (KeyError, TypeError, ValueError):
        return bare  # who opens the dataset says what is wrong
    encodings = {
        encoding
        for shard in index.shards
        for name, encoding in zip(shard.column_names, shard.column_encodings, strict=True)
        if name == parsed.name
    }
    return Schema((with_form(parsed, encodings),)).to_json()[0]


def check_nulls(shard: MDSShard) -> None:
    """Reject nulls that the schema does not record: they would be delivered as values.

    Floating-point columns hold NaN in place of a null.

    Raises
    ------
    CorruptDatasetError
        If the shard holds such nulls.
    """
    schema = shard.schema
    hidden = {n for n in (*shard.validity.rows, *shard.validity.elements) if n in schema}
    if any(not schema[name].is_floating for name in hidden):
        raise CorruptDatasetError(
            f"{shard.url} holds nulls in {sorted(hidden)} that the index does not record: another "
            "program has rewritten it. Restore the index with `mdstorm reindex`, or "
            "merge the datasets with mdstorm_backend.merge_index",
            url=shard.url,
        )
