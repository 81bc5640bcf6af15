"""The repr and notebook output of converters, loaders and readers."""

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.conftest import of_values
from tests.unit.compat.spark.converters import converter_of

from mdstorm import TransformSpec, make_batch_reader
from mdstorm.codecs import CompressedImageCodec, NdarrayCodec
from mdstorm.ngram import NGram
from mdstorm.predicates import PredicateBase, in_negate, in_pseudorandom_split, in_set
from mdstorm.pytorch import BatchedDataLoader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm.unischema import Unischema, UnischemaField


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


class Odd(PredicateBase):
    def get_fields(self) -> set[str]:
        return {"id"}

    def do_include(self, values: Mapping[str, Any]) -> Any:
        return values["id"] % 2


@pytest.fixture
def converter(tmp_path: Path) -> SparkDatasetConverter:
    columns = {"id": [1, 2, 3], "<name>": [None, "b", "c"]}
    return converter_of(tmp_path / "copy", columns, {"id": "long", "<name>": "string"})


@of_values
def test_converter_repr_shows_its_copy(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, None), (2, "b"), (3, "c")], "id long, `<name>` string")
    converter = make_spark_converter(frame, parent_cache_dir_url=tmp_path.as_uri())
    line = rf"SparkDatasetConverter\('{converter.cache_dir_url}', 3 rows, 1 file, [\d.]+ k?B\)"
    assert re.fullmatch(line, repr(converter))
    shown = text(converter._repr_html_())
    assert "rows 3 shards 1 bytes" in shown
    assert "data a copy" in shown
    assert "id long none" in shown
    assert "&lt;name&gt; string 1" in shown
    other = pickle.loads(pickle.dumps(converter))  # noqa: S301
    assert "_known" not in vars(other)
    assert repr(other) == f"SparkDatasetConverter('{converter.cache_dir_url}', 3 rows, 1 file)"
    assert text(other._repr_html_()) == text(converter._repr_html_())


@pytest.mark.newest
def test_converter_repr_counts_the_files_of_a_table(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(str(tmp_path), pa.table({"id": [number]}), mode="append")
    converter = make_spark_converter(str(tmp_path))
    assert ", 3 rows, 3 files, " in repr(converter)
    other = pickle.loads(pickle.dumps(converter))  # noqa: S301  # it has not opened the table
    assert repr(other).endswith(", 3 rows)")


def test_deleted_converter_repr_shows_deletion(converter: SparkDatasetConverter) -> None:
    other = pickle.loads(pickle.dumps(converter))  # noqa: S301
    converter.delete()
    for found in (converter, other):
        assert "state nothing is there" in text(found._repr_html_())
    assert repr(converter) == f"SparkDatasetConverter('{converter.cache_dir_url}', deleted)"
    made = SparkDatasetConverter.__new__(SparkDatasetConverter)
    assert repr(made) == "SparkDatasetConverter(cannot be described now)"


def test_remote_converter_repr_opens_no_files_and_masks_password() -> None:
    url = "s3://me:secret@nowhere/x"
    converter = SparkDatasetConverter(url, [f"{url}/a.mds"], 5)
    assert repr(converter) == "SparkDatasetConverter('s3://me:***@nowhere/x', 5 rows, 1 file)"
    shown = text(converter._repr_html_())
    assert "state not opened" in shown
    assert "secret" not in shown


def test_loader_and_reader_reprs_show_data_order_and_rank(
    converter: SparkDatasetConverter,
) -> None:
    loader = converter.make_torch_dataloader(batch_size=2, seed=3, cur_shard=0, shard_count=2)
    assert "seed 3, rank 0 of 2" in repr(loader)
    assert "batch_size 2" in text(loader._repr_html_())
    narrow = converter.make_torch_dataloader(num_epochs=1, schema_fields=["i."])
    for _ in ("unopened", "read"):
        assert text(narrow._repr_html_()).endswith("column type nulls id long none")
        assert len(list(narrow)) == 1
    arguments: dict[str, Any] = {"shuffle_row_groups": False, "schema_fields": ["id"]}
    with make_batch_reader(converter.file_urls, **arguments) as reader:
        assert re.search("3 rows, .* exact order, sequential, yields=batches", repr(reader))
        assert "state open" in text(reader._repr_html_())
        assert "id int64 scalar" in text(reader._repr_html_())
        assert repr(BatchedDataLoader(reader, batch_size=2)).endswith("batch_size=2)")
        assert "3 rows" in repr(reader.dataset)
    assert "state stopped" in text(reader._repr_html_())


def test_tf_dataset_repr_shows_data_and_progress(converter: SparkDatasetConverter) -> None:
    pytest.importorskip("tensorflow")
    arguments: dict[str, Any] = {"schema_fields": ["id"], "num_epochs": 1}
    with converter.make_tf_dataset(batch_size=2, **arguments) as dataset:
        line = f"ContextDataset('{converter.cache_dir_url}', 3 rows, "
        assert repr(dataset).startswith(line)
        assert f"batch_size=2, element_spec={dataset.element_spec})" in repr(dataset)
        assert "so far 0 batches" in text(dataset._repr_html_())
        assert "&lt;name&gt;" not in text(dataset._repr_html_())
        assert sum(len(batch.id) for batch in dataset) == 3
        assert "so far 2 batches, 3 rows" in text(dataset._repr_html_())


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (in_set({1}, "id"), "in_set(inclusion_values={1}, predicate_field='id')"),
        (in_negate(Odd()), "in_negate(predicate=Odd())"),
        (in_pseudorandom_split([1.0], 0, "x"), "in_pseudorandom_split(…, …, predicate_field='x')"),
        (TransformSpec(removed_fields=["b"]), "TransformSpec(removed_fields=['b'])"),
        (CompressedImageCodec("png", 90), "CompressedImageCodec('png', 90)"),
        (
            NGram({0: ["a"]}, 5, "t", timestamp_overlap=False),
            "NGram(fields={0: ['a']}, delta_threshold=5, timestamp_field='t', "
            "timestamp_overlap=False)",
        ),
    ],
)
def test_repr_shows_constructor_arguments(value: object, shown: str) -> None:
    assert repr(value) == shown


def test_unischema_repr_lists_fields() -> None:
    fields = [
        UnischemaField("id", np.int64, (), None, False),
        UnischemaField("image", np.uint8, (2, None), NdarrayCodec(), True),
    ]
    schema = Unischema("It", fields)
    assert repr(schema) == "Unischema('It', id, image)"
    assert str(schema).startswith(
        "Unischema(It, [\n  UnischemaField('id', int64, (), None, False),"
    )
    shown = text(schema._repr_html_())
    assert "id int64 scalar no" in shown
    assert "image uint8 2, any NdarrayCodec yes" in shown
    many = Unischema("Many", [UnischemaField(f"f{n}", np.int64, ()) for n in range(20)])
    assert repr(many).endswith("f6, f7, … 20 fields)")
