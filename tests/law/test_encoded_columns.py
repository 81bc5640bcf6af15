"""Encodings of any kind return what they encoded, whatever other columns are next to them.

Encodings are made of each size, kind of text, time of decoding and form of column. Each pair of
them is stored together, alone or next to strings, so that records have one size or not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mdstorm import make_batch_reader
from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.encodings import registry
from mdstorm_backend.format.encodings.encoding import Encoding

ROWS = 9


@dataclass(frozen=True)
class Form:
    """What values are, and how a column of them is returned: strings, numbers or lists."""

    type_: Any
    value_of: Callable[[bytes], Any]
    bytes_of: Callable[[Any], bytes]

    def column(self, stored: list[bytes]) -> Any:
        values = [self.value_of(one) for one in stored]
        is_number = pa.types.is_integer(self.type_)
        return np.array(values) if is_number else pa.array(values, self.type_)


FORMS = {
    "hex": Form(pa.string(), bytes.hex, bytes.fromhex),
    "lists": Form(pa.list_(pa.int64()), list, bytes),
    "integers": Form(
        pa.int64(),
        lambda one: int.from_bytes(one, "little"),
        lambda one: one.to_bytes(4, "little"),
    ),
}


def make(name: str, size: int | None, form: Form, *, in_columns: bool) -> type[Encoding]:
    """Make an encoding whose columns are decoded at once, or as late as those of most others."""

    def encode(self: Encoding, value: Any) -> bytes:
        return form.bytes_of(value)

    def decode(self: Encoding, stored: Any) -> Any:
        return form.value_of(bytes(stored))

    def decode_column(self: Encoding, data: Any, starts: Any, sizes: Any) -> Any:
        stored = Encoding.decode_column(self, data, starts, sizes)
        return form.column(stored.to_pylist())

    members: dict[str, Any] = {"names": (name,), "encode": encode, "decode": decode, "size": size}
    if in_columns:
        members |= {"late": "never", "arrow_type": form.type_, "decode_column": decode_column}
    return type(name.title(), (Encoding,), members)


KINDS = {
    f"law_{form}_{size}_{'column' if in_columns else 'late'}": (size, FORMS[form], in_columns)
    for form, size, in_columns in product(FORMS, (None, 4), (False, True))
    if not (form == "integers" and size is None)
}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, (size, form, in_columns) in KINDS.items():
        registry.FORMAT.pop(name, None)
        kind = make(name, size, form, in_columns=in_columns)
        registry.FORMAT.pop(name)
        monkeypatch.setitem(registry.FORMAT, name, kind)
    registry.parse_encoding.cache_clear()
    yield
    registry.parse_encoding.cache_clear()


def values_of(name: str) -> list[Any]:
    size, form, _ = KINDS[name]
    stored = [bytes([n, 255, 0, n])[: size or 1 + n % 4] for n in range(ROWS)]
    return [form.value_of(one) for one in stored]


def plain(values: Any) -> list[Any]:
    found = values.to_pylist() if isinstance(values, pa.Array) else list(values)
    return [one.tolist() if hasattr(one, "tolist") else one for one in found]


@pytest.mark.parametrize("more", [{}, {"text": "str"}], ids=["fixed", "next to strings"])
@pytest.mark.parametrize("name", KINDS)
def test_values_are_returned_next_to_any_columns(
    name: str, more: dict[str, str], tmp_path: Path
) -> None:
    others = [*KINDS]
    other = others[(others.index(name) + 3) % len(others)]
    wanted = {"v": values_of(name), "w": values_of(other), "n": [*range(ROWS)]}
    columns = {"v": name, "w": other, "n": "int64", **more}
    with MDSWriter(columns=columns, out=str(tmp_path / "data"), size_limit=400) as writer:
        for n in range(ROWS):
            writer.write({"text": "a" * n, **{key: one[n] for key, one in wanted.items()}})
    url = str(tmp_path / "data")
    dataset = open_dataset(url)
    for key, values in wanted.items():
        assert [dataset[n][key] for n in range(ROWS)] == values
        batches = list(dataset.batches(4))
        assert [one for batch in batches for one in plain(batch[key])] == values
    streaming = StreamingDataset(local=url, batch_size=4)
    batches = list(StreamingDataLoader(streaming, batch_size=4))
    for key, values in wanted.items():
        assert [one for batch in batches for one in plain(batch[key])] == values
    names = ["n", "v"]  # some of the columns
    with make_batch_reader(f"file://{url}", schema_fields=names, shuffle_row_groups=False) as rows:
        found = [one for batch in rows for one in plain(batch.v)]
    assert found == wanted["v"]


def written(folder: Path, name: str, value: Any) -> Any:
    """Return what a written value is when it is read."""
    with MDSWriter(columns={"v": name}, out=str(folder)) as writer:
        writer.write({"v": value})
    return open_dataset(str(folder))[0]["v"]


def filled(url: str, value: Any) -> Any:
    """Return what a null in the first row becomes, or None if the value is refused."""
    try:
        with make_batch_reader(url, fill_nulls={"v": value}, shuffle_row_groups=False) as rows:
            return plain(next(rows).v)[0]
    except InvalidArgumentError:
        return None


@pytest.mark.parametrize("name", KINDS)
def test_fill_value_is_returned_as_if_written_or_is_refused(name: str, tmp_path: Path) -> None:
    encode = registry.parse_encoding(name).encoder()
    stored = [encode(one) for one in values_of(name)]
    column = pa.array([None, *stored[1:]], pa.binary())
    with MDSWriter(columns={"v": name}, out=str(tmp_path / "data")) as writer:
        writer.write_batch(pa.table({"v": column}))
    url = (tmp_path / "data").as_uri()
    right, *others = values_of(name)[2], "no value", b"\x01", b"1234", 3, 0.5
    assert filled(url, right) == right
    for number, value in enumerate(others):
        if (found := filled(url, value)) is not None:
            assert found == written(tmp_path / f"{number}", name, value)
