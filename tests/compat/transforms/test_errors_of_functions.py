"""Errors that the functions of transforms raise."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mdstorm import TransformSpec, make_batch_reader, make_reader


def scale_pixels(rows: Any) -> Any:
    return rows["pixels"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # make_reader recommends make_batch_reader
@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
@pytest.mark.parametrize("make", [make_batch_reader, make_reader])
@pytest.mark.parametrize("pool", ["thread", "process"])
def test_key_error_in_a_function_names_the_function(tmp_path: Path, make: Any, pool: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": [0, 1]}), path)
    spec = TransformSpec(scale_pixels)
    reader = make(path.as_uri(), transform_spec=spec, reader_pool_type=pool, workers_count=1)
    with reader, pytest.raises(KeyError, match="pixels") as caught:
        list(reader)
    notes = getattr(caught.value, "__notes__", [])
    assert notes[0] == "The TransformSpec function scale_pixels raised this error."
