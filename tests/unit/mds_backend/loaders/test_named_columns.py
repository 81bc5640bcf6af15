"""Arguments that name columns, in pairs: `columns` and each other."""

from collections.abc import Sequence
from io import BytesIO
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.kit.small_datasets import write_dataset

from mdstorm import make_batch_reader
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

ROWS = 7
N: list[int | None] = [None if row == 3 else row * 10 for row in range(ROWS)]
MASK = [n is None for n in N]
PIXELS = [np.full((2, 2, 3), row, np.uint8) for row in range(ROWS)]

#: Arguments, and the columns that they add or change: their values in each row.
GIVEN: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "row_numbers": ({"row_numbers": "row"}, {"row": [*range(ROWS)]}),
    "files": ({"files": {"image": "path"}, "decode": "image"}, {"image": PIXELS}),
    "null_masks": ({"null_masks": ["n"]}, {"n_is_null": MASK, "n": [n or 0 for n in N]}),
    "fill_nulls": ({"fill_nulls": {"n": -1}}, {"n": [-1 if n is None else n for n in N]}),
}
PAIRS = [pair for size in (1, 2) for pair in combinations(GIVEN, size)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named") / "data"
    columns = {"n": N, "path": [f"_files/{row}.png" for row in range(ROWS)], "other": range(ROWS)}
    write_dataset(folder, columns, {"n": "long", "path": "string", "other": "long"})
    (folder / "_files").mkdir()
    for row, pixels in enumerate(PIXELS):
        content = BytesIO()
        Image.fromarray(pixels).save(content, "PNG")
        (folder / f"_files/{row}.png").write_bytes(content.getvalue())
    return folder


def expected(pair: Sequence[str], columns: Sequence[str] | None) -> dict[str, list[Any]]:
    """Return the values of each column that is read."""
    stored = {"n": [np.nan if n is None else n for n in N], "other": [*range(ROWS)]}
    stored["path"] = [f"_files/{row}.png" for row in range(ROWS)]
    added = dict(chain.from_iterable(GIVEN[name][1].items() for name in pair))
    names = [*stored] if columns is None else columns
    kept = {name: values for name, values in stored.items() if name in names}
    return {
        **kept,
        **{name: values for name, values in added.items() if name != "n" or name in names},
    }


def listings(pair: Sequence[str]) -> list[list[str] | None]:
    """Return lists of columns: all, one that no argument names, and each that an argument adds."""
    added = [name for argument in pair for name in GIVEN[argument][1]]
    needed = ["n"] if {"null_masks", "fill_nulls"} & {*pair} else []
    return [None, ["other", *needed], *([*needed, name] for name in added if name != "n")]


CASES = [(pair, columns) for pair in PAIRS for columns in listings(pair)]


def check(found: dict[str, list[Any]], pair: Sequence[str], columns: Sequence[str] | None) -> None:
    wanted = expected(pair, columns)
    assert {*found} == {*wanted}
    for name, values in wanted.items():
        arrays = [np.asarray(one) for one in found[name]]
        np.testing.assert_array_equal(np.array(arrays), np.array(values), name)


@pytest.mark.parametrize(("pair", "columns"), CASES, ids=str)
def test_columns_of_a_streaming_dataset_have_their_own_values(
    pair: tuple[str, ...], columns: list[str] | None, folder: Path
) -> None:
    options = dict(chain.from_iterable(GIVEN[name][0].items() for name in pair))
    dataset = StreamingDataset(
        local=str(folder), order=ExactOrder(), batch_size=ROWS, columns=columns, **options
    )
    (batch,) = StreamingDataLoader(dataset, batch_size=ROWS)
    check({name: [*values] for name, values in batch.items()}, pair, columns)


@pytest.mark.parametrize(("pair", "columns"), CASES, ids=str)
def test_columns_of_a_reader_have_their_own_values(
    pair: tuple[str, ...], columns: list[str] | None, folder: Path
) -> None:
    options = dict(chain.from_iterable(GIVEN[name][0].items() for name in pair))
    listed = None if columns is None else [*{*columns, "other"}]  # one stored column is needed
    with make_batch_reader(
        folder.as_uri(), schema_fields=listed, num_epochs=1, shuffle_row_groups=False, **options
    ) as reader:
        (batch,) = reader
    check({name: [*values] for name, values in batch._asdict().items()}, pair, listed)
