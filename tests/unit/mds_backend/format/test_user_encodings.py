"""User-defined encodings, both new ones and replacements for the format's own."""

import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.foreign import foreign_dataset
from tests.unit.mds_backend.format import own_classes
from tests.unit.mds_backend.format.own_classes import COLUMNS, LAYOUTS, OWN, Words, sample

from mdstorm_backend import (
    MDSWriter,
    StreamingDataLoader,
    StreamingDataset,
    dataframe_to_mds,
    errors,
    open_dataset,
    register_encoding,
)
from mdstorm_backend.format.encodings import registry
from mdstorm_backend.format.schema import Column
from mdstorm_backend.maintenance import inspect, reindex, verify

ROWS = 40


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    for name, kind in OWN.items():
        register_encoding(name, kind)
    yield
    forget()


def forget() -> None:
    for name in OWN:
        with suppress(KeyError):
            registry.unregister_encoding(name)


def write(directory: Path, columns: list[str]) -> str:
    encodings = {name: COLUMNS[name] for name in columns}
    with MDSWriter(columns=encodings, out=str(directory), size_limit=500) as writer:
        for i in range(ROWS):
            writer.write({name: sample(i)[name] for name in columns})
    return str(directory)


def check_values(found: Any, expected: list[Any]) -> None:
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(value), np.asarray(wanted))


@pytest.mark.parametrize("columns", LAYOUTS.values(), ids=LAYOUTS)
def test_all_entry_points_write_and_read_user_encodings(columns: list[str], tmp_path: Path) -> None:
    url = write(tmp_path, columns)
    dataset = open_dataset(url)
    for i in (0, 7, ROWS - 1):
        for name in columns:
            check_values([dataset[i][name]], [sample(i)[name]])
    for format_ in ("numpy", "pandas"):
        batch = next(iter(dataset.batches(ROWS, format=format_)))
        for name in columns:
            check_values(batch[name], [sample(i)[name] for i in range(ROWS)])
    (arrow,) = dataset.batches(ROWS, format="arrow")
    assert {arrow.schema.field(name).type for name in columns if name != "n"} == {pa.binary()}
    report = verify(url)
    assert report.is_good
    assert not report.notes
    assert {c.name for c in inspect(url).columns} == {*columns}
    before = (tmp_path / "index.json").read_bytes()
    (tmp_path / "index.json").unlink()
    reindex(url)
    assert (tmp_path / "index.json").read_bytes() == before


@pytest.mark.parametrize("context", [None, "fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_streaming_datasets_and_workers_read_user_encodings(
    context: str | None, tmp_path: Path
) -> None:
    dataset = StreamingDataset(local=write(tmp_path, list(COLUMNS)), batch_size=8, shuffle=True)
    loader = StreamingDataLoader(
        dataset,
        batch_size=8,
        num_workers=0 if context is None else 1,
        multiprocessing_context=context,
    )
    found = 0
    for batch in loader:
        for name in COLUMNS:
            check_values(batch[name], [sample(int(i))[name] for i in batch["n"]])
        assert batch["c"].is_complex()
        assert isinstance(batch["w"], list)
        found += len(batch["n"])
    assert found == ROWS


def test_registered_encoding_stores_bytes_unchanged_and_encodes_arrow_values(
    tmp_path: Path,
) -> None:
    columns = {"c": "complex128", "w": "words"}
    with MDSWriter(columns=columns, out=str(tmp_path / "samples")) as writer:
        writer.write({"c": np.complex128(1 + 2j).tobytes(), "w": b"x y"})
    assert list(open_dataset(str(tmp_path / "samples"))) == [{"c": 1 + 2j, "w": ["x", "y"]}]
    data = {"c": pa.array([2.5, None, 3.5]), "w": pa.array([["a"], ["b", "c"], None])}
    with MDSWriter(columns=columns, out=str(tmp_path / "batches")) as writer:
        writer.write_batch(pa.table(data))
    dataset = open_dataset(str(tmp_path / "batches"))
    assert [s["c"] for s in dataset[:]] == [2.5, None, 3.5]
    assert [s["w"] for s in dataset[:]] == [["a"], ["b", "c"], None]
    (batch,) = dataset.batches(3)
    assert list(batch["c"]) == [2.5, None, 3.5]
    assert verify(str(tmp_path / "batches")).is_good


@pytest.mark.parametrize("columns", LAYOUTS.values(), ids=LAYOUTS)
def test_columns_with_other_encodings_are_read_if_class_is_unregistered(
    columns: list[str], tmp_path: Path
) -> None:
    url = write(tmp_path, columns)
    forget()
    dataset = open_dataset(url)
    name = next(iter(columns))
    with pytest.raises(
        errors.UnsupportedEncodingError, match=rf"'{name}' .*register_encoding\('{COLUMNS[name]}', "
    ):
        dataset[0]
    with pytest.raises(ValueError, match="columns="):
        next(iter(dataset.batches(2)))
    assert dataset.sample(7, ["n"]) == {"n": 7}
    (batch,) = dataset.batches(ROWS, columns=["n"])
    assert batch["n"].tolist() == list(range(ROWS))
    (first, *_) = StreamingDataset(local=url, batch_size=8, columns=["n"])
    assert first == {"n": 0}
    assert any("register_encoding" in problem.problem for problem in verify(url).problems)


def test_other_columns_of_arrow_data_are_read_if_class_is_unregistered(tmp_path: Path) -> None:
    with MDSWriter(columns={"i": "int", "n": "int64"}, out=str(tmp_path)) as writer:
        writer.write_batch(pa.table({"i": [1000, None], "n": [1, 2]}))
    assert [sample["i"] for sample in open_dataset(str(tmp_path))[:]] == [1000, None]
    forget()
    dataset = open_dataset(str(tmp_path))
    with pytest.raises(errors.UnsupportedEncodingError, match=r"'i' .*redefined the encoding"):
        dataset[0]
    assert dataset.to_table(["n"]).to_pydict() == {"n": [1, 2]}


@pytest.fixture
def sent_to_workers() -> Iterator[None]:
    """Send the class definitions to Spark workers, which cannot import the tests."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    modules = [own_classes, sys.modules[__name__]]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.long
@pytest.mark.usefixtures("sent_to_workers")
def test_user_encoding_is_used_in_spark_tasks(spark: Any, tmp_path: Path) -> None:
    def samples(frame: Any) -> Iterator[dict[str, Any]]:
        for number in frame["n"]:
            yield {"n": number, "c": complex(number, 1)}

    options = {"out": str(tmp_path), "columns": {"n": "int64", "c": "complex128"}}
    dataframe_to_mds(spark.range(5).toDF("n"), mds_kwargs=options, udf_iterable=samples)
    assert sorted(s["c"].real for s in open_dataset(str(tmp_path))[:]) == [0, 1, 2, 3, 4]
    forget()  # Spark reuses worker processes, which must also unregister the class
    options = {"out": str(tmp_path / "again"), "columns": {"n": "int"}}
    dataframe_to_mds(spark.range(5).toDF("n"), mds_kwargs=options)
    assert sorted(s["n"] for s in open_dataset(options["out"])[:]) == [0, 1, 2, 3, 4]


def test_encodings_sent_with_a_job_replace_those_sent_with_the_previous_job() -> None:
    class Other(Words):
        pass

    forget()
    register_encoding("square", OWN["square"])
    registry.receive({"int": own_classes.Digits, "words": Words}, replaces=True)
    assert registry.user_classes().keys() == {"int", "words", "square"}
    registry.receive({"words": Other}, replaces=True)
    assert registry.user_classes()["words"] is Other
    assert registry.parse_encoding("int").size == 8
    registry.receive({}, replaces=True)
    assert registry.user_classes().keys() == {"square"}


def test_pickled_column_carries_its_encoding_classes() -> None:
    class Local(Words):
        pass

    register_encoding("int", Local)
    for text in ("uint8", "ndarray:int8", "str"):
        assert pickle.loads(pickle.dumps(Column("a", text))) == Column("a", text)  # noqa: S301
    for text in ("int", "mixed:int and str"):
        with pytest.raises((AttributeError, pickle.PicklingError), match="Local"):
            pickle.dumps(Column("a", text))


def test_pickled_dataset_carries_its_encoding_classes(tmp_path: Path) -> None:
    pickled = pickle.dumps(open_dataset(write(tmp_path, ["c", "w"])))
    forget()
    copy = pickle.loads(pickled)  # noqa: S301
    for name in ("c", "w"):
        check_values([copy[3][name]], [sample(3)[name]])


def test_class_replacing_a_built_in_encoding_reads_older_files(tmp_path: Path) -> None:
    class Doubled:
        def encode(self, obj: Any) -> bytes:
            raise NotImplementedError

        def decode(self, data: bytes) -> Any:
            return 2 * int.from_bytes(data, "little")

    registry.unregister_encoding("int")
    with MDSWriter(columns={"i": "int"}, out=str(tmp_path)) as writer:
        writer.write({"i": 21})
    register_encoding("int", Doubled)
    assert open_dataset(str(tmp_path))[0] == {"i": 42}
    registry.unregister_encoding("int")
    assert open_dataset(str(tmp_path))[0] == {"i": 21}


def test_shards_with_different_user_encodings_use_their_own(tmp_path: Path) -> None:
    shards: Any = [
        ([b"\0"], {"x": ("square:1", 1)}),
        ([bytes(range(4))], {"x": ("square:2", 4)}),
    ]
    dataset = foreign_dataset(tmp_path, shards)
    assert dataset.schema["x"].encoding == "mixed:square:1 and square:2"
    assert [sample["x"].tolist() for sample in dataset] == [[[0]], [[0, 1], [2, 3]]]


def test_value_that_a_user_encoding_rejects_is_not_written(tmp_path: Path) -> None:
    class Wrong(own_classes.Complex128):
        def encode(self, obj: Any) -> bytes:
            return obj  # type: ignore[no-any-return]

    register_encoding("wrong", Wrong)
    with MDSWriter(columns={"c": "wrong"}, out=str(tmp_path)) as writer:
        with pytest.raises(errors.EncodingTypeError, match=r"'c' .*returned str, but must"):
            writer.write({"c": "text"})
        with pytest.raises(errors.EncodingError, match="2 bytes"):
            writer.write({"c": bytearray(b"ab")})
        writer.write({"c": bytearray(16)})
    assert len(open_dataset(str(tmp_path))) == 1
    registry.unregister_encoding("wrong")


def test_class_replacing_the_pickle_encoding_requires_permission(tmp_path: Path) -> None:
    register_encoding("pkl", Words)
    with MDSWriter(columns={"p": "pkl"}, out=str(tmp_path)) as writer:
        writer.write({"p": ["a", "b"]})
    with pytest.raises(errors.UnsafeTypeError):
        open_dataset(str(tmp_path))[0]
    assert open_dataset(str(tmp_path), allow_unsafe_types=True)[0] == {"p": ["a", "b"]}
    registry.unregister_encoding("pkl")


def test_registering_an_invalid_encoding_raises_error() -> None:
    class Half:
        def encode(self, obj: Any) -> bytes:
            return b""

    class Sized(own_classes.Digits):
        size: Any = "8"

    for name, kind, message in (
        ("half", Half, "no method decode"),
        ("sized", Sized, r"Sized\.size must be .* found '8'"),
        ("a:b", own_classes.Digits, "colon"),
        ("", own_classes.Digits, "empty"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            register_encoding(name, kind)
    with pytest.raises(errors.ArgumentTypeError, match="a name and a class"):
        register_encoding("digits", 7)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        registry.unregister_encoding("int64")
    with pytest.raises(errors.UnsupportedEncodingError, match=r"'square:x'.*invalid literal"):
        registry.parse_encoding("square:x")
    assert registry.parse_encoding("words:x").is_opaque
