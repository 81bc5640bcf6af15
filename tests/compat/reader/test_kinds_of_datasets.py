"""Datasets that Petastorm wrote, n-grams and selected row groups, through the readers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.readers import row_reader, write_parquet

from mdstorm.errors import UnsupportedArgumentError
from mdstorm.etl.rowgroup_indexers import SingleFieldIndexer
from mdstorm.etl.rowgroup_indexing import build_rowgroup_index
from mdstorm.ngram import NGram
from mdstorm.predicates import in_set
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.selectors import SingleIndexSelector
from mdstorm.transform import TransformSpec

GOLDEN = f"file://{Path(__file__).parents[1]}/etl/golden"
IN_ORDER: dict[str, Any] = {"shuffle_row_groups": False}


class TestPetastormsOwn:
    """Datasets with a stored schema."""

    def test_rows_are_decoded(self) -> None:
        with make_reader(f"{GOLDEN}/codecs", **IN_ORDER) as reader:
            rows = list(reader)
        assert type(rows[0]).__name__ == "Codecs_view"
        assert [row.id for row in rows] == list(range(12))
        assert (rows[0].vec.dtype, rows[0].vec.shape) == (np.float32, (3,))
        assert (rows[0].png.dtype, rows[0].png.ndim) == (np.uint8, 3)
        assert type(rows[0].u8) is np.uint8

    def test_batches_are_not_and_a_warning_says_so(self) -> None:
        with pytest.warns(UserWarning, match="Please use make_reader"):
            reader = make_batch_reader(f"{GOLDEN}/codecs", schema_fields=["vec", "u8"], **IN_ORDER)
        with reader:
            batch = next(reader)
        assert batch.vec[0].startswith(b"\x93NUMPY")
        assert batch.u8.dtype == np.int16

    def test_a_view_of_the_schema(self) -> None:
        with make_reader(f"{GOLDEN}/codecs", schema_fields=["id", "vec"]) as reader:
            assert reader.schema._name == "Codecs_view"
            assert next(reader)._fields == ("id", "vec")

    def test_images_reach_the_function_decoded(self) -> None:
        def shape_of(row: dict[str, Any]) -> dict[str, Any]:
            return {"pixels": row["png"].size}

        spec = TransformSpec(shape_of, [("pixels", np.int64, (), False)], ["png"])
        with make_reader(f"{GOLDEN}/codecs", schema_fields=["png"], transform_spec=spec) as reader:
            assert all(row.pixels > 0 for row in reader)

    def test_partitions_are_pruned_by_predicates(self) -> None:
        predicate = in_set(["train"], "split")
        with make_reader(f"{GOLDEN}/partitioned", predicate=predicate) as reader:
            everything = len(reader.dataset)
            assert {row.split for row in reader} == {"train"}
        assert everything < 12


class TestNGrams:
    """Consecutive rows as one item."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        times = [0, 1, 2, 3, 7, 8]
        return write_parquet(tmp_path, {"t": times, "v": times}, row_group_size=6)

    def test_they_are_dicts_of_namedtuples(self, url: str) -> None:
        ngram = NGram({0: ["v"], 1: ["t", "v"]}, 1, "t")
        with row_reader(url, schema_fields=ngram) as reader:
            items = list(reader)
        assert [(item[0].v, item[1].t) for item in items] == [(0, 1), (1, 2), (2, 3), (7, 8)]
        assert items[0][0]._fields == ("v",)
        assert reader.ngram is ngram

    @pytest.mark.parametrize("parts", [1, 2, 3])
    @pytest.mark.parametrize("shard_count", [1, 2])
    def test_none_is_lost_where_row_groups_are_cut(
        self, url: str, parts: int, shard_count: int
    ) -> None:
        found = []
        for shard in range(shard_count):
            with row_reader(
                url,
                schema_fields=NGram({0: ["v"], 1: ["v"]}, 1, "t"),
                shuffle_row_drop_partitions=parts,
                cur_shard=shard,
                shard_count=shard_count,
            ) as reader:
                found += [item[1].v for item in reader]
        assert sorted(found) == [1, 2, 3, 8]

    def test_a_transform_comes_before_them(self, url: str) -> None:
        spec = TransformSpec(lambda row: {**row, "v": -row["v"]})
        ngram = NGram({0: ["v"]}, 1, "t")
        with row_reader(url, schema_fields=ngram, transform_spec=spec) as reader:
            assert next(reader)[0].v == 0
            assert next(reader)[0].v == -1

    def test_batches_have_none(self, url: str) -> None:
        with pytest.raises(NotImplementedError, match="ngrams are not supported by ArrowReader"):
            make_batch_reader(url, schema_fields=NGram({0: ["v"]}, 1, "t"))

    @pytest.mark.parametrize(
        "arguments", [{"shuffle_rows": True}, {"order": "elastic"}], ids=["rows", "elastic"]
    )
    def test_rows_stay_in_order(self, url: str, arguments: Any) -> None:
        with pytest.raises(UnsupportedArgumentError, match="made of consecutive rows"):
            make_reader(url, schema_fields=NGram({0: ["v"]}, 1, "t"), **arguments)

    def test_without_overlap_row_groups_stay_whole(self, url: str) -> None:
        ngram = NGram({0: ["v"]}, 1, "t", timestamp_overlap=False)
        with pytest.raises(NotImplementedError, match="timestamp_overlap=False"):
            make_reader(url, schema_fields=ngram, shuffle_row_drop_partitions=2)


def test_selected_row_groups_alone_are_read(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"id": range(12)}, row_group_size=4)
    build_rowgroup_index(url, None, [SingleFieldIndexer("by_id", "id")])
    selector = SingleIndexSelector("by_id", [5])
    with make_batch_reader(url, rowgroup_selector=selector) as reader:
        assert [batch.id.tolist() for batch in reader] == [[4, 5, 6, 7]]


def test_a_selector_without_an_index(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"id": range(12)})
    with pytest.raises(ValueError, match="Row groups index is not available"):
        make_batch_reader(url, rowgroup_selector=SingleIndexSelector("by_id", [5]))
