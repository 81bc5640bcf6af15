"""What every encoding keeps: each entry point returns its values, or an error naming the column.

The values of the engine's encodings are in ``encodings/built_in.py``. Each other module of that
folder has an example: values and the class of their encoding, which only these tests know.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from importlib import import_module
from itertools import islice
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import torch
from PIL.Image import Image

from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm.transform import TransformSpec
from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.errors import MDStormError
from mdstorm_backend.format.encodings import registry
from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.maintenance import reindex, verify

_BUILT_IN = set(registry.FORMAT)
_FOLDER = Path(__file__).parent / "encodings"
_MODULES = [import_module(f"tests.contract.encodings.{m.name}") for m in iter_modules([_FOLDER])]
VALUES: dict[str, list[Any]] = {k: v for module in _MODULES for k, v in module.VALUES.items()}
#: The classes of the examples, which have registered themselves; only these tests know them.
_EXAMPLES = {name: registry.FORMAT.pop(name) for name in set(registry.FORMAT) - _BUILT_IN}
ROWS, BATCH, NULL = 12, 3, 1
_IN_ORDER: dict[str, Any] = {
    "shuffle_row_groups": False,
    "reader_pool_type": "dummy",
    "schema_fields": ["v", "n"],
}


def cases(texts: Iterable[str]) -> list[Any]:
    """Return encodings as cases; the gate leaves out those that differ only in a size."""
    kinds, found = set(), []
    for text in texts:
        kind = {**registry.FORMAT, **_EXAMPLES}[text.partition(":")[0]], re.sub(r"\d", "", text)
        found.append(pytest.param(text, marks=pytest.mark.long if kind in kinds else ()))
        kinds.add(kind)
    return found


with_each = pytest.mark.parametrize("text", cases(VALUES))
#: Arrow sets and fills nulls of float16 from version 15 on.
_WITHOUT_NULLS = {"float16"} if int(pa.__version__.split(".")[0]) < 15 else set()
with_nulls = pytest.mark.parametrize("text", cases(sorted(VALUES.keys() - _WITHOUT_NULLS)))


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, kind in _EXAMPLES.items():
        monkeypatch.setitem(registry.FORMAT, name, kind)
    registry.parse_encoding.cache_clear()
    yield
    registry.parse_encoding.cache_clear()


def encoded(text: str) -> list[bytes]:
    return [registry.parse_encoding(text).encoder()(value) for value in VALUES[text]]


def expected(text: str) -> list[Any]:
    """Return the values of all rows, as the encoding decodes them."""
    encoding = registry.parse_encoding(text)
    stored = [file.decode() if encoding.is_text else file for file in encoded(text)]
    return [plain(encoding.decode(stored[i % BATCH])) for i in range(ROWS)]


def plain(value: Any) -> Any:
    """Return a value, or a column, in a form that does not depend on the framework."""
    if isinstance(value, Image):
        return np.asarray(value).tolist()
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return int(value) if isinstance(value, bool) else value  # tensors of booleans are uint8


def write(text: str, directory: Path) -> str:
    with MDSWriter(columns={"v": text, "n": "int64"}, out=str(directory), size_limit=600) as writer:
        for i in range(ROWS):
            writer.write({"v": VALUES[text][i % BATCH], "n": i})
    return str(directory)


def write_arrow(text: str, directory: Path, null: int | None = None) -> str:
    """Write the rows as Arrow data: text, stored bytes, or numbers and their lists."""
    values: list[Any] = VALUES[text]
    if not registry.parse_encoding(text).can_store(pa.binary()):
        values = [v.tolist() if isinstance(v, np.ndarray) else v for v in values]
    elif not all(isinstance(value, str) for value in values):
        values = encoded(text)
    column = pa.array([None if i == null else values[i % BATCH] for i in range(ROWS)])
    with MDSWriter(columns={"v": text, "n": "int64"}, out=str(directory), size_limit=600) as writer:
        writer.write_batch(pa.table({"v": column, "n": range(ROWS)}))
    return str(directory)


def loader(url: str) -> Any:
    dataset = StreamingDataset(local=url, batch_size=BATCH, allow_unsafe_types=True)
    return StreamingDataLoader(dataset, batch_size=BATCH)


def read(url: str, make: Callable[..., Any] = make_batch_reader, **arguments: Any) -> list[Any]:
    """Return all rows or batches of a reader."""
    with make(f"file://{url}", **_IN_ORDER, **arguments) as reader:
        return list(reader)


def column(batches: list[Any], name: str = "v") -> list[Any]:
    return [plain(each) for batch in batches for each in getattr(batch, name)]


def refuses(find: Callable[[], Any]) -> bool:
    """Whether a call is refused, with an error that names the column."""
    try:
        find()
    except (MDStormError, tf.errors.OpError) as error:
        if "column 'v'" not in str(error):
            raise
        return True
    return False


def test_every_registered_encoding_has_values_here() -> None:
    assert {text.partition(":")[0] for text in VALUES} == set(registry.FORMAT)


@pytest.mark.matrix
@pytest.mark.parametrize("text", VALUES)
@pytest.mark.parametrize("how", [write, write_arrow])
def test_written_values_are_returned_by_samples_batches_and_loaders(
    how: Callable[..., str], text: str, tmp_path: Path
) -> None:
    url, wanted = how(text, tmp_path / "data"), expected(text)
    dataset = open_dataset(url, allow_unsafe_types=True)
    assert [plain(dataset[i]["v"]) for i in range(ROWS)] == wanted
    for form in ("numpy", "pandas"):
        batches = list(dataset.batches(BATCH, format=form))  # type: ignore[call-overload]
        assert [plain(each) for batch in batches for each in batch["v"]] == wanted
    if not refuses(lambda: list(dataset.batches(BATCH, format="arrow"))):
        assert sum(len(batch["v"]) for batch in dataset.batches(BATCH, format="arrow")) == ROWS
    (batch,) = islice(loader(url), 1)
    assert len(batch["v"]) == BATCH
    assert verify(url).is_good
    before = (tmp_path / "data" / "index.json").read_bytes()
    (tmp_path / "data" / "index.json").unlink()
    reindex(url)
    assert (tmp_path / "data" / "index.json").read_bytes() == before


@with_each
def test_state_continues_with_the_remaining_batches(text: str, tmp_path: Path) -> None:
    url = write(text, tmp_path)
    first = loader(url)
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    rest = [plain(batch["v"]) for batch in batches]
    again = loader(url)
    again.load_state_dict(state)
    assert [plain(batch["v"]) for batch in again] == rest
    assert len(rest) == ROWS // BATCH - 1


@with_each
@pytest.mark.filterwarnings("ignore::UserWarning")  # tested elsewhere
def test_readers_and_transforms_return_the_values(text: str, tmp_path: Path) -> None:
    url, wanted = write(text, tmp_path), expected(text)
    if registry.parse_encoding(text).is_unsafe:
        assert refuses(lambda: read(url))
        return
    assert column(read(url)) == wanted
    assert [plain(row.v) for row in read(url, make_reader)] == wanted
    assert column(read(url, transform_spec=TransformSpec(lambda frame: frame))) == wanted


@with_each
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::UnicodeWarning")  # tested elsewhere
def test_tensorflow_returns_the_values_or_refuses_the_column(text: str, tmp_path: Path) -> None:
    url = write(text, tmp_path)
    first = []

    def read_first() -> None:
        with make_batch_reader(f"file://{url}", **_IN_ORDER) as reader:
            first.extend(make_petastorm_dataset(reader).take(1))

    if not refuses(read_first):
        values = first[0].v
        assert len(values) > 0
        if values.dtype != tf.string:  # text, decimals and bytes
            assert plain(values.numpy()) == expected(text)[: len(values)]


@with_nulls
def test_filters_find_nulls_and_compare_values_or_refuse_the_column(
    text: str, tmp_path: Path
) -> None:
    if registry.parse_encoding(text).is_unsafe:
        return
    url = write_arrow(text, tmp_path, NULL)
    others = [i for i in range(ROWS) if i != NULL]
    assert column(read(url, filters=[("v", "=", None)]), "n") == [NULL]
    assert column(read(url, filters=[("v", "!=", None)]), "n") == others
    value = open_dataset(url)[2]["v"]  # not as written: an encoding may change a value's form
    if not refuses(lambda: read(url, filters=[("v", "in", [value])])):
        assert column(read(url, filters=[("v", "in", [value])]), "n") == [2, 5, 8, 11]


@with_nulls
def test_nulls_are_filled_and_masked_or_the_value_is_refused(text: str, tmp_path: Path) -> None:
    if registry.parse_encoding(text).is_unsafe:
        return
    url = write_arrow(text, tmp_path, NULL)
    others = [i for i in range(ROWS) if i != NULL]
    null = open_dataset(url)[NULL]["v"]
    assert null is None or null != null
    masked = read(url, null_masks=["v"])
    assert column(masked, "v_is_null") == [int(i == NULL) for i in range(ROWS)]
    wanted, encoding = column(masked), registry.parse_encoding(text)
    is_text = encoding.is_text and not encoding.is_number
    value = encoded(text)[2].decode() if is_text else VALUES[text][2]  # the stored text
    if refuses(lambda: read(url, fill_nulls={"v": value})):
        assert encoding.is_array or encoding.shape  # one number fills a null array
    else:
        filled = column(read(url, fill_nulls={"v": value}))
        assert [filled[i] for i in others] == [wanted[i] for i in others]
        assert filled[NULL] == expected(text)[2]


@with_each
def test_fill_value_of_another_kind_raises_error(text: str, tmp_path: Path) -> None:
    if not registry.parse_encoding(text).is_unsafe:
        url = write_arrow(text, tmp_path, NULL)
        assert refuses(lambda: read(url, fill_nulls={"v": object()}))


@pytest.mark.newest
@pytest.mark.parametrize(
    "text", cases(text for text in sorted(VALUES) if registry.parse_encoding(text).is_number)
)
def test_fill_value_of_numbers_is_returned_equal_or_raises_error(text: str, tmp_path: Path) -> None:
    """Values of all encodings, and others, of which some convert to other numbers."""
    url = write_arrow(text, tmp_path, NULL)
    others = [True, 1.5, 2.0, 2**63, 300, "1", np.int8(3), np.float32(0.5), Decimal(7), [1]]
    given = {repr(value): value for value in [*(v[2] for v in VALUES.values()), *others]}
    for shown, value in given.items():
        found, error = filled(url, value)
        assert f"gives {shown} for column 'v'" in error if error else found == value, shown


def filled(url: str, value: Any) -> tuple[Any, str]:
    """Return what replaces a null, or the error."""
    try:
        return column(read(url, fill_nulls={"v": value}))[NULL], ""
    except MDStormError as error:
        return None, str(error)


@pytest.mark.parametrize("text", ["example_ipv4", "example_digest"])
@pytest.mark.parametrize("value", ["neither", b"\x01"])
def test_fill_value_that_encoding_cannot_hold_raises_error(
    text: str, value: Any, tmp_path: Path
) -> None:
    url = write_arrow(text, tmp_path, NULL)
    with pytest.raises(MDStormError, match=f"'v' of encoding '{text}', which cannot hold it"):
        read(url, fill_nulls={"v": value})


@pytest.mark.parametrize("value", ["000AFF00", b"\x00\x0a\xff\x00"])
def test_fill_value_is_returned_like_a_stored_value(value: Any, tmp_path: Path) -> None:
    url = write_arrow("example_digest", tmp_path, NULL)
    assert column(read(url, fill_nulls={"v": value}))[NULL] == "000aff00"


def test_value_with_wrong_size_for_its_encoding_raises_error(tmp_path: Path) -> None:
    data = pa.table({"v": ["#0000"]})
    with (
        MDSWriter(columns={"v": "example_rgb"}, out=str(tmp_path)) as writer,
        pytest.raises(MDStormError, match=r"'v'.*has 3 bytes"),
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

        class Text(Encoding):
            names = ("str",)

            def encode(self, value: Any) -> bytes:
                return bytes(value)

            def decode(self, stored: Any) -> Any:
                return stored
