"""A call in a `tf.function`, whose code AutoGraph converts, returns what it returns outside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.kit.readers import write_parquet

from mdstorm import TransformSpec, convert, make_batch_reader, make_reader
from mdstorm.ngram import NGram
from mdstorm.predicates import in_lambda, in_set
from mdstorm.spark import make_spark_converter
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm_backend import open_dataset

ROWS = 12


def halved(rows: Any) -> Any:
    rows["number"] = rows["number"] // 2
    return rows


def read(reader: Any) -> list[int]:
    with reader:
        return [int(n) for item in reader for n in np.ravel(item.number)]


IN_ORDER: dict[str, Any] = {"shuffle_row_groups": False, "num_epochs": 1}
USES: dict[str, Callable[[str, str], Any]] = {
    "make_batch_reader": lambda url, mds: read(make_batch_reader(url, **IN_ORDER)),
    "make_reader": lambda url, mds: read(make_reader(mds, **IN_ORDER)),
    "positional": lambda url, mds: read(make_batch_reader(url, None, "dummy", 1, **IN_ORDER)),
    "predicate": lambda url, mds: read(
        make_batch_reader(url, predicate=in_set([1, 5], "number"), **IN_ORDER)
    ),
    "function": lambda url, mds: read(
        make_batch_reader(url, predicate=in_lambda(["number"], lambda n: n % 2), **IN_ORDER)
    ),
    "transform": lambda url, mds: read(
        make_batch_reader(url, transform_spec=TransformSpec(halved), **IN_ORDER)
    ),
    "table": lambda url, mds: open_dataset(mds).to_table()["number"].to_pylist(),
    "convert": lambda url, mds: len(convert(url, f"{mds}-again", overwrite=True, progress=False)),
    "converter": lambda url, mds: len(make_spark_converter(mds)),
    "schema": lambda url, mds: str(
        Unischema("S", [UnischemaField("a", np.int32, (), None, False)]).fields
    ),
    "n-gram": lambda url, mds: NGram({0: ["a"], 1: ["a"]}, 1, "a").length,
}


def marks_of(use: str) -> Any:
    """Return the mark of what takes AutoGraph a second and more."""
    return pytest.mark.long if use in ("convert", "converter", "table") else ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", [pytest.param(one, marks=marks_of(one)) for one in USES])
def test_call_in_tf_function_returns_what_it_returns_outside(use: str, tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "parquet", {"number": range(ROWS)}, 4)
    convert(url, tmp_path / "mds", progress=False)
    mds = (tmp_path / "mds").as_uri()
    call, found = USES[use], list[Any]()

    @tf.function
    def traced() -> Any:
        found.append(call(url, mds))
        return tf.constant(0)

    traced()
    assert found == [call(url, mds)]
