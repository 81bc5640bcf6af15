"""New encodings, each defined by a single class."""

from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.errors import EncodingError
from mdstorm_backend.format.encodings import registry
from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.maintenance import inspect, reindex, verify


class Rgb(Encoding):
    """A colour as a fixed-shape array."""

    names = ("rgb",)
    is_array = True
    stores = (pa.types.is_string,)

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        return None if parameters else cls(text, np.dtype(np.uint8), (3,))

    def encode(self, value: Any) -> bytes:
        return bytes.fromhex(value[1:])

    def decode(self, stored: Any) -> Any:
        raise NotImplementedError("fixed-shape arrays are views of the stored bytes")


class Address(Encoding):
    """An address as a fixed-size object."""

    names = ("ipv4",)
    size = 4
    stores = (pa.types.is_string,)

    def encode(self, value: Any) -> bytes:
        return IPv4Address(value).packed

    def decode(self, stored: Any) -> Any:
        return IPv4Address(stored)


class TextUuid(Encoding):
    """A UUID as text, which has variable size."""

    names = ("str_uuid",)
    is_text = True
    stores = (pa.types.is_string,)
    placeholder = str(UUID(int=0)).encode()

    def encode(self, value: Any) -> bytes:
        return str(value).encode()

    def decode(self, stored: Any) -> Any:
        return UUID(stored)


#: The encodings, which have registered themselves; only the tests in this module know them.
KINDS = [registry.FORMAT.pop(kind.names[0]) for kind in (Rgb, Address, TextUuid)]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for kind in KINDS:
        monkeypatch.setitem(registry.FORMAT, kind.names[0], kind)
    registry.parse_encoding.cache_clear()
    yield
    registry.parse_encoding.cache_clear()


ROWS = 40
COLOURS = [f"#{i:02x}0a{255 - i:02x}" for i in range(ROWS)]
UUIDS = [UUID(int=i) for i in range(ROWS)]
HOSTS = [IPv4Address(f"10.0.{i}.255") for i in range(ROWS)]
ENCODINGS = {"colour": "rgb", "host": "ipv4", "key": "str_uuid", "n": "int64"}


def write(directory: Path, *, by_batch: bool, nulls: bool = False) -> str:
    with MDSWriter(columns=ENCODINGS, out=str(directory), size_limit=600) as writer:
        if by_batch:
            colours = [None if nulls and i == 3 else c for i, c in enumerate(COLOURS)]
            hosts = [None if nulls and i == 4 else str(h) for i, h in enumerate(HOSTS)]
            keys = [None if nulls and i == 5 else str(u) for i, u in enumerate(UUIDS)]
            columns = (colours, hosts, keys, range(ROWS))
            writer.write_batch(pa.table(dict(zip(ENCODINGS, columns, strict=True))))
        else:
            for i in range(ROWS):
                values = (COLOURS[i], HOSTS[i], UUIDS[i], i)
                writer.write(dict(zip(ENCODINGS, values, strict=True)))
    return str(directory)


def expected(i: int) -> list[int]:
    return [i, 10, 255 - i]


@pytest.mark.parametrize("by_batch", [False, True])
def test_all_entry_points_write_and_read_new_encodings(by_batch: bool, tmp_path: Path) -> None:
    url = write(tmp_path, by_batch=by_batch)
    dataset = open_dataset(url)
    assert {column.name: column.encoding for column in dataset.schema} == ENCODINGS
    assert dataset[7]["colour"].tolist() == expected(7)
    assert (dataset[7]["host"], dataset[7]["key"]) == (HOSTS[7], UUIDS[7])
    (batch,) = dataset.batches(ROWS)
    assert batch["colour"].tolist() == [expected(i) for i in range(ROWS)]
    (arrow,) = dataset.batches(ROWS, format="arrow")
    assert arrow["colour"].to_pylist() == batch["colour"].tolist()
    assert arrow["key"].to_pylist() == [str(uuid) for uuid in UUIDS]
    assert arrow["host"].to_pylist() == [host.packed for host in HOSTS]
    loader = StreamingDataLoader(StreamingDataset(local=url, batch_size=ROWS), batch_size=ROWS)
    (tensors,) = loader
    assert tensors["colour"].tolist() == [expected(i) for i in range(ROWS)]
    assert (tensors["host"], tensors["key"]) == (HOSTS, UUIDS)
    assert [column.name for column in inspect(url).columns] == sorted(ENCODINGS)
    assert verify(url).is_good
    before = (tmp_path / "index.json").read_bytes()
    (tmp_path / "index.json").unlink()
    reindex(url)
    assert (tmp_path / "index.json").read_bytes() == before


def test_nulls_in_columns_with_new_encoding_read_back_as_nulls(tmp_path: Path) -> None:
    url = write(tmp_path, by_batch=True, nulls=True)
    dataset = open_dataset(url)
    assert dataset[3]["colour"] is None
    assert dataset[4]["host"] is None
    assert dataset[5]["key"] is None
    (arrow,) = dataset.batches(ROWS, format="arrow")
    assert arrow["colour"].to_pylist()[2:5] == [expected(2), None, expected(4)]
    (frame,) = dataset.batches(ROWS, format="pandas")
    assert frame["colour"].isna().tolist() == [i == 3 for i in range(ROWS)]
    assert verify(url).is_good


def test_value_with_wrong_size_for_its_encoding_raises_error(tmp_path: Path) -> None:
    data = pa.table({"colour": ["#0000"], "host": ["::"], "key": [""], "n": [0]})
    with (
        MDSWriter(columns=ENCODINGS, out=str(tmp_path)) as writer,
        pytest.raises(EncodingError, match=r"'colour'.*has 3 bytes"),
    ):
        writer.write_batch(data)


def test_encoding_without_decode_raises_error_when_it_is_declared() -> None:
    with pytest.raises(TypeError, match=r"encoding .*Half has to define decode"):

        class Half(Encoding):
            names = ("half",)

            def encode(self, value: Any) -> bytes:
                return bytes(value)

    assert "half" not in registry.FORMAT


def test_encoding_with_the_name_of_another_raises_error_that_names_both() -> None:
    with pytest.raises(TypeError, match=r"encodings String and .*Text are both called 'str'"):

        class Text(TextUuid):
            names = ("str",)
