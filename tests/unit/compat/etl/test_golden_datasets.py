"""Datasets written by Petastorm have the same rows in mdstorm, as Parquet, MDS and RDDs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from tests.conftest import IS_CONNECT, IS_REFUSING
from tests.kit.parquet_files import open_parquet
from tests.unit.compat.etl.golden_rows import (
    NAMES,
    assert_rows,
    assert_same,
    expected_rows,
    golden_url,
    read_rows,
)

from mdstorm import convert
from mdstorm._datasets import DecodedSource, decoded, stored_unischema
from mdstorm.errors import UnsupportedArgumentError
from mdstorm.etl.dataset_metadata import get_schema_from_dataset_url
from mdstorm.spark_utils import dataset_as_rdd
from mdstorm.unischema import Unischema
from mdstorm_backend.datasets.dataset import Dataset


def opened(name: str) -> tuple[Any, Unischema]:
    parquet = open_parquet(golden_url(name))
    schema = stored_unischema(parquet)
    assert schema is not None
    return decoded(parquet, schema), schema


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    datasets = {}
    for name in NAMES:
        directory = str(tmp_path_factory.mktemp(name))
        datasets[name] = convert(golden_url(name), directory)
    return datasets


@pytest.fixture(params=["parquet", "mds"])
def codecs(request: pytest.FixtureRequest, converted: dict[str, Dataset]) -> Any:
    source, schema = opened("codecs")
    return source if request.param == "parquet" else decoded(converted["codecs"], schema)


@pytest.mark.parametrize("name", NAMES)
def test_golden_dataset_rows_equal_petastorms_rows(
    name: str, converted: dict[str, Dataset]
) -> None:
    for url in (golden_url(name), converted[name].url):
        assert_rows(read_rows(url), expected_rows(name))
    schema = get_schema_from_dataset_url(converted[name].url)
    assert str(schema) == str(opened(name)[1])


def test_converted_petastorm_dataset_has_expected_encodings(
    converted: dict[str, Dataset],
) -> None:
    encodings = {column.name: column.encoding for column in converted["codecs"].schema}
    assert list(encodings) == list(opened("codecs")[1].fields)
    assert " ".join(f"{name}={encoding}" for name, encoding in encodings.items()) == (
        "id=int64 name=str flag=uint8 tiny=int8 u8=uint8 u16=uint16 f32=float32 f64=float64 "
        "price=str_decimal at=int64 day=int32 plain=int32 vec=ndarray:float32 mat=ndarray:int16 "
        "fort=ndarray:float64 big=ndarray:float32 mask=ndarray:uint8 words=bytes point=int64 "
        "zipped=ndarray:uint8:4,4 png=png jpeg=jpeg grey=png grey16=png rgb16=png"
    )


def test_image_files_are_stored_unchanged(converted: dict[str, Dataset]) -> None:
    files = open_parquet(golden_url("codecs")).to_table(["id", "png", "jpeg"]).sort_by("id")
    stored = converted["codecs"].to_table(["id", "png", "jpeg"]).sort_by("id")
    for name in ("png", "jpeg"):
        assert stored.column(name).to_pylist() == files.column(name).to_pylist()


def test_dataset_without_encoded_fields_is_not_wrapped_for_decoding(
    converted: dict[str, Dataset],
) -> None:
    dataset = converted["partitioned"]
    schema = stored_unischema(dataset)
    assert schema is not None
    assert decoded(dataset, schema) is dataset
    assert isinstance(decoded(converted["codecs"], opened("codecs")[1]), DecodedSource)


def test_samples_equal_petastorms_rows(codecs: Any) -> None:
    samples = [codecs.sample(i, ["id", "vec", "mat", "zipped", "name", "words"]) for i in range(12)]
    expected = {row["id"]: row for row in expected_rows("codecs")}
    assert len({int(sample["id"]) for sample in samples}) == 12
    for sample in samples:
        row = expected[int(sample["id"])]
        for name in ("vec", "mat", "zipped", "words"):
            assert_same(sample[name], row[name], name)
        assert sample["name"] == row["name"]
    assert list(codecs[3]) == list(opened("codecs")[1].fields)


def test_modifying_read_values_does_not_affect_the_source() -> None:
    source, _ = opened("codecs")
    shard = source.shard(0)
    rows = np.arange(shard.num_samples)
    for name in ("vec", "mat", "fort"):
        first = shard.read(rows, [name])[name]
        kept = [None if value is None else value.copy() for value in first]
        for value in first:
            if value is not None:
                value[...] = 77
        for found, wanted in zip(shard.read(rows, [name])[name], kept, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.long
def test_source_over_a_petastorm_dataset_can_be_pickled() -> None:
    source, _ = opened("codecs")
    copy = pickle.loads(pickle.dumps(source))  # noqa: S301  # our own
    assert copy.fingerprint == source.fingerprint
    for number in range(len(source)):
        for name, value in source.sample(number).items():
            assert_same(copy.sample(number)[name], value)


def test_shard_in_use_is_opened_only_once() -> None:
    source, _ = opened("codecs")
    assert source.find_open(0) is None
    shard = source.shard(0)
    assert source.shard(0) is shard is source.find_open(0)
    assert shard.memory > 0
    assert not source.is_mapped


@pytest.mark.long
@pytest.mark.skipif(IS_REFUSING, reason="needs RDDs, which this session rejects")
def test_petastorm_dataset_is_read_as_an_rdd(classic_spark: Any) -> None:
    rows = dataset_as_rdd(golden_url("codecs"), classic_spark).collect()
    assert_rows(sorted(rows, key=lambda row: row.id), expected_rows("codecs"))
    some = dataset_as_rdd(golden_url("codecs"), classic_spark, ["id", "vec"])
    assert some.getNumPartitions() == 2
    found = some.collect()
    assert {type(row).__name__ for row in found} == {"Codecs_view_view"}
    assert sorted(int(row.id) for row in found) == list(range(12))


@pytest.mark.skipif(not IS_CONNECT and not IS_REFUSING, reason="classic sessions have RDDs")
def test_rdd_on_session_without_rdds_raises_error(spark: Any) -> None:
    with pytest.raises(UnsupportedArgumentError, match="needs a classic Spark session"):
        dataset_as_rdd(golden_url("codecs"), spark)
