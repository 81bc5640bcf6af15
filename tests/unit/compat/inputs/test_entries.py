"""Each entry takes the inputs that the page lists, and a new kind of data opens in all of them."""

from __future__ import annotations

import json
import re
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.kit.small_datasets import write_numbers
from tests.unit.compat.inputs.inputs import INPUTS, Input, Place, files

import mdstorm_backend
from mdstorm import convert, make_batch_reader, make_reader, open_dataset
from mdstorm.cli import main
from mdstorm.errors import InvalidArgumentError, MDStormError
from mdstorm.spark import make_spark_converter
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.kinds import Kind, open_stored
from mdstorm_backend.kinds.kind import KINDS

PAGE = Path(__file__).parents[4] / "docs" / "concepts" / "data.md"


def key(row: Any) -> Any:
    return row["n"] if "n" in row else row["id"]


def by_reader(given: Input) -> list[Any]:
    source = given.source
    if isinstance(source, str) and source.startswith("/"):
        source = f"file://{source}"
    if isinstance(source, list):
        source = [f"file://{one}" for one in source]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about datasets of Petastorm
        with make_batch_reader(source, **given.keywords) as reader:
            found = [batch._asdict() for batch in reader]
    return [number for batch in found for number in key(batch).tolist()]


def by_converter(given: Input) -> list[Any]:
    converter = make_spark_converter(given.source, **given.keywords)
    with converter.make_torch_dataloader(batch_size=4, num_epochs=1) as loader:
        found = [number for batch in loader for number in key(batch).tolist()]
    assert sorted(found) == sorted(int(key(row)) for row in converter.dataset)
    return found


def by_convert(given: Input) -> list[Any]:
    target = Path(tempfile.mkdtemp(), "mds")
    converted = convert(given.source, target, progress=False, **given.keywords)
    return [int(key(row)) for row in converted]


def by_commands(given: Input) -> list[Any]:
    if not isinstance(given.source, str):
        raise MDStormError("commands take texts")
    version = ["--version", str(given.version)] if given.version is not None else []
    for command in ("inspect", "verify"):
        result = CliRunner().invoke(main, [command, *version, given.source])
        assert result.exit_code == 0, result.output
    check_trace(given, version)
    arguments = ["head", "-n", "1000", "--format", "json", *version, given.source]
    return [key(row) for row in json.loads(CliRunner().invoke(main, arguments).stdout)]


def check_trace(given: Input, version: list[str]) -> None:
    """Check that ``trace`` shows the first batch of a loader over the data."""
    converter = make_spark_converter(given.source, **given.keywords)
    loader = converter.make_torch_dataloader(batch_size=4, num_epochs=1)
    state = Path(tempfile.mkdtemp(), "state.json")
    state.write_text(json.dumps(loader.state_dict()))
    options = ["--dataset", given.source, "--batch-size", "4", "--batch", "0", "--format", "json"]
    result = CliRunner().invoke(main, ["trace", str(state), *version, *options])
    assert result.exit_code == 0, result.output
    first = next(iter(loader))
    assert [key(row) for row in json.loads(result.stdout)] == key(first).tolist()


def by_run(given: Input, run: str) -> list[Any]:
    """Return the rows of a run's steps, which are found from the id of the run alone."""
    from mdstorm.mlflow import load_trace, log_input, log_state

    loader = make_spark_converter(given.source, **given.keywords).make_torch_dataloader(
        batch_size=4, num_epochs=1, shuffling_queue_capacity=100, seed=3
    )
    log_input(loader)
    log_state(loader)
    trace = load_trace(run, url=given.source if given.is_secret else None)
    steps = [key(batch).tolist() for batch in loader]
    for step, expected in enumerate(steps):
        assert [int(key(row)) for row in trace.dataset[trace.rows(step)]] == expected
    return [number for step in steps for number in step]


def by_stream(given: Input) -> list[Any]:
    if not isinstance(given.source, str):
        raise MDStormError("a URL")
    dataset = mdstorm_backend.StreamingDataset(remote=given.source, batch_size=1)
    return [int(key(row)) for row in dataset]


ENTRIES: dict[str, Callable[[Input], list[Any]]] = {
    "`open_dataset`": lambda given: [
        int(key(row)) for row in open_dataset(given.source, **given.keywords)
    ],
    "readers": by_reader,
    "`make_spark_converter`": by_converter,
    "`convert`": by_convert,
    "commands": by_commands,
    "`StreamingDataset`": by_stream,
}


def cells() -> list[tuple[str, str, bool]]:
    """Return the cells of the table on the page: what is passed, where, and whether it opens."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text("utf-8").splitlines()
        if re.match(r"\| (?!-)", line)
    ]
    (_, *entries), *inputs = rows
    return [
        (name, entry, cell == "yes")
        for name, *found in inputs
        for entry, cell in zip(entries, found, strict=True)
    ]


def test_page_lists_every_input_and_entry() -> None:
    assert {name for name, _, _ in cells()} == {*INPUTS}
    assert {entry for _, entry, _ in cells()} == {*ENTRIES}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Input]:
    """Return an input by its name. Each is made once, because entries only read it."""

    @cache
    def input_of(name: str) -> Input:
        folder = tmp_path_factory.mktemp("input")
        return INPUTS[name](Place(folder, str(folder)))

    return input_of


@pytest.mark.parametrize(("name", "entry", "opens"), cells())
def test_entry_takes_what_the_page_says(
    name: str, entry: str, opens: bool, made: Callable[[str], Input]
) -> None:
    given = made(name)
    if not opens:
        with pytest.raises(MDStormError):
            ENTRIES[entry](given)
        return
    rows = given.rows.to_pylist()
    assert sorted(ENTRIES[entry](given)) == sorted(key(row) for row in rows)


@pytest.mark.newest
@pytest.mark.parametrize(
    "name", [name for name, entry, opens in cells() if opens and entry == "`make_spark_converter`"]
)
def test_run_is_traced_over_each_input(
    name: str, made: Callable[[str], Input], mlflow_run: str
) -> None:
    given = made(name)
    assert sorted(by_run(given, mlflow_run)) == sorted(key(row) for row in given.rows.to_pylist())


@pytest.fixture
def listing(tmp_path: Path) -> Any:
    """A new kind of data: a text file that lists the Parquet files to read."""

    class Listing(Kind):
        name = "a listing"

        def is_at(self, place: Any) -> bool:
            return place.location is not None and place.location.exists("listing.txt")

        def open(self, place: Any) -> SampleDataset:
            names = bytes(place.location.read("listing.txt")).decode().split()
            return open_stored([place.location.file_url(name) for name in names])

    rows = files(
        Place(tmp_path, str(tmp_path)), "data/b.parquet", "data/a.parquet", "data/c.parquet"
    )
    (tmp_path / "data/listing.txt").write_text("b.parquet a.parquet")
    yield Input(str(tmp_path / "data"), rows.slice(0, 10))
    del KINDS["a listing"]


@pytest.mark.parametrize("entry", [name for name in ENTRIES if name != "`StreamingDataset`"])
def test_new_kind_of_data_opens_in_every_entry(entry: str, listing: Input) -> None:
    assert sorted(ENTRIES[entry](listing)) == list(range(10))
    with pytest.raises(MDStormError, match=r"no MDS dataset at .*, but a listing"):
        by_stream(listing)


def test_new_kind_that_is_not_parquet_is_not_converted_nor_advised_to_be(tmp_path: Path) -> None:
    class Nested(Kind):
        name = "a nested dataset"

        def is_at(self, place: Any) -> bool:
            return place.location is not None and place.location.exists("nested/index.json")

        def open(self, place: Any) -> SampleDataset:
            found = open_stored(place.location.child("nested").url)
            found.url = place.url
            return found

    try:
        write_numbers(tmp_path / "nested", 6)
        for source, name in ((tmp_path, "a nested dataset"), (tmp_path / "nested", "an MDS data")):
            with pytest.raises(InvalidArgumentError, match=f"{source} is {name}.*, not Parquet"):
                convert(source, tmp_path.parent / f"{tmp_path.name} converted")
        with pytest.raises(MDStormError, match=r"but a nested dataset\. Read it in place with"):
            mdstorm_backend.StreamingDataset(local=str(tmp_path))
    finally:
        del KINDS["a nested dataset"]


@pytest.mark.parametrize("open_", [open_dataset, mdstorm_backend.open_dataset])
def test_invalid_added_columns_raise_error_in_both_ways_to_open(open_: Any, tmp_path: Path) -> None:
    write_numbers(tmp_path / "mds", 6)
    for name, wrong in {"max_file_bytes": "x", "row_numbers": "", "files": "text"}.items():
        with pytest.raises(MDStormError, match=f"^{name} must"):
            open_(str(tmp_path / "mds"), **{name: wrong})


@pytest.mark.newest
def test_run_is_traced_over_a_new_kind_of_data(listing: Input, mlflow_run: str) -> None:
    pytest.importorskip("mdstorm.mlflow")
    assert sorted(by_run(listing, mlflow_run)) == list(range(10))


def test_make_reader_takes_what_the_batch_reader_takes(tmp_path: Path) -> None:
    given = INPUTS["an open dataset"](Place(tmp_path, str(tmp_path)))
    with pytest.warns(UserWarning, match="inferred"), make_reader(given.source) as reader:
        assert sorted(row.n for row in reader) == list(range(6))
