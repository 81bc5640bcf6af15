"""What the function of a `TransformSpec` sees, as PyTorch's loader hands it over."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.compat.spark.converters import IN_ORDER, converter_of, with_torch
from tests.mds_backend.small_datasets import array_of, struct_of

from mdstorm import TransformSpec
from mdstorm.spark import SparkDatasetConverter


def frames_seen(converter: SparkDatasetConverter, **arguments: Any) -> list[pd.DataFrame]:
    seen: list[pd.DataFrame] = []

    def look(frame: pd.DataFrame) -> pd.DataFrame:
        seen.append(frame.copy())
        return frame

    arguments = {**IN_ORDER, "reader_pool_type": "dummy", **arguments}
    with_torch(converter, transform_spec=TransformSpec(look), **arguments)
    return seen


def test_values_as_pandas_has_them(tmp_path: Path) -> None:
    columns = {
        "array": [[1, 2], [3, 4]],
        "ragged": [[1.5], []],
        "text": ["a", "b"],
        "day": [dt.date(2020, 1, 1)] * 2,
        "time": [dt.datetime(2020, 1, 1)] * 2,
        "words": [["x"], []],
        "nested": [{"a": 1}, {"a": 2}],
    }
    fields = {
        "array": array_of("integer"),
        "ragged": array_of("double"),
        "text": "string",
        "day": "date",
        "time": "timestamp_ntz",
        "words": array_of("string"),
        "nested": struct_of(a="long"),
    }
    converter = converter_of(tmp_path / "values", columns, fields)
    with pytest.warns(UserWarning, match="'nested' has an unsupported field"):
        (frame,) = frames_seen(converter)
    assert list(frame.columns) == list(columns)[:-1]
    assert isinstance(frame["array"][0], np.ndarray)
    assert frame["array"][0].dtype == np.int32
    assert [cell.tolist() for cell in frame["ragged"]] == [[1.5], []]
    assert frame["text"].tolist() == ["a", "b"]
    assert frame["day"].tolist() == [dt.date(2020, 1, 1)] * 2
    assert frame["time"].dtype == "datetime64[ns]"
    assert [list(cell) for cell in frame["words"]] == [["x"], []]


def test_columns_that_are_read_and_masks(tmp_path: Path) -> None:
    columns = {"a": [1, 2], "b": [None, True]}
    converter = converter_of(tmp_path / "masks", columns, {"a": "long", "b": "boolean"})
    (frame,) = frames_seen(converter, schema_fields=["b"], null_masks=["b"])
    assert frame.to_dict("list") == {"b": [False, True], "b_is_null": [True, False]}
