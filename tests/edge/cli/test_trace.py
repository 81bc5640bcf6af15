"""``mdstorm trace``."""

import json
import resource
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from tests.edge.cli.conftest import run

from mdstorm import TransformSpec
from mdstorm.reader import make_batch_reader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import open_dataset


def make(dataset: Path, **options: Any) -> Any:
    opened = open_dataset(str(dataset))
    converter = SparkDatasetConverter(opened.url, opened.file_urls, len(opened))
    options = {"batch_size": 16, "num_epochs": 1, "shuffling_queue_capacity": 50, **options}
    return converter.make_torch_dataloader(**options)


def taken(loader: Any, path: Path) -> tuple[Any, list[list[int]]]:
    """Save a checkpoint after three batches; return it, and the numbers in the rest."""
    batches = iter(loader)
    for _ in islice(batches, 3):
        pass
    state = loader.state_dict()
    torch.save({"model": {"w": torch.zeros(3)}, "step": 3, "loaders": [state]}, path)
    return state, [batch["number"].tolist() for batch in batches]


@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_rows_of_a_batch_after_a_checkpoint_are_shown(
    dataset: Path, tmp_path: Path, order: str
) -> None:
    checkpoint = tmp_path / "step.pt"
    loader = make(dataset, order=order, cur_shard=0, shard_count=2)
    state, rest = taken(loader, checkpoint)
    other = make(dataset, order=order, cur_shard=1, shard_count=2)
    other.load_state_dict(state)
    options = ("--dataset", dataset, "--batch-size", 16)
    for rank, batches in enumerate([rest, [batch["number"].tolist() for batch in other]]):
        for number in (0, 4, len(batches) - 1):
            where = ("--batch", number, "--rank", rank, "--format", "json")
            result = run("trace", checkpoint, *options, *where)
            assert (result.exit_code, result.stderr) == (0, "")
            found = json.loads(result.stdout)
            assert [row["number"] for row in found] == batches[number]
            assert [row["__row__"] for row in found] == batches[number]
    row = rest[4][0]
    for question in (("--row", row), ("--where", f"number = {row}"), ("--row", row, "--row", row)):
        result = run("trace", checkpoint, *options, *question, "--format", "json")
        (shown,) = json.loads(result.stdout)
        assert (shown["row"], shown["batch"], shown["rank"]) == (row, 4, 0)
        assert open_dataset(str(dataset)).locate(row) == (shown["shard"], shown["row_in_shard"])
    assert str(row) in run("trace", checkpoint, *options, "--row", row).stdout


def test_rows_are_written_to_files(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, rest = taken(make(dataset), tmp_path / "step.pt")
    monkeypatch.chdir(tmp_path)
    options = ("trace", "step.pt", "--dataset", dataset, "--batch-size", 16, "--batch", 2)
    assert run(*options, "--format", "parquet").exit_code == 0
    assert pyarrow.parquet.read_table("batch-2.parquet")["number"].to_pylist() == rest[2]
    assert run(*options, "--format", "csv", "-o", "rows.csv").exit_code == 0
    assert pyarrow.csv.read_csv("rows.csv")["__row__"].to_pylist() == rest[2]
    assert str(rest[2][0]) in run(*options, "--columns", "number").stdout
    before = sorted(tmp_path.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))  # as with a full disk
    try:
        for format_ in ("parquet", "csv"):
            assert run(*options, "--format", format_, "-o", "cut").exit_code == 3
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(tmp_path.iterdir()) == before
    assert run(*options, "--format", "csv", "-o", "/dev/null").exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_state_of_a_reader_has_row_groups_as_batches(dataset: Path, tmp_path: Path) -> None:
    with make_batch_reader(dataset.as_uri(), seed=3, shuffle_rows=True) as reader:
        next(reader)
        (tmp_path / "state.json").write_text(json.dumps(reader.state_dict()))
        expected = next(reader).number.tolist()
    result = run(
        "trace", tmp_path / "state.json", "--dataset", dataset, "--batch", 0, "--format", "json"
    )
    assert [row["number"] for row in json.loads(result.stdout)] == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("epoch", 2**70),
        ("epoch", "x"),
        ("shuffle_seed", None),
        ("order", "other"),
        ("settings", {"window": None}),
        ("settings", {"new": 1}),
        ("columns", 3),
        ("num_epochs", 1.5),
        ("lanes", [[1]]),
    ],
)
def test_damaged_state_prints_our_error(
    dataset: Path, tmp_path: Path, key: str, value: object
) -> None:
    state = make(dataset, cur_shard=0, shard_count=2).state_dict()
    ours = {**state["mdstorm"], key: value} if key in state["mdstorm"] else state["mdstorm"]
    state = {**state, "mdstorm": ours} | ({key: value} if key in state else {})
    (tmp_path / "state.json").write_text("\ufeff" + json.dumps(state), encoding="utf-8")
    found = run("trace", tmp_path / "state.json", "--dataset", dataset, "--row", 1)
    assert found.stderr.startswith("error: ")
    assert found.exit_code in (2, 3)


def test_checkpoint_with_several_states_needs_a_key(dataset: Path, tmp_path: Path) -> None:
    train, other = make(dataset, seed=3).state_dict(), make(dataset, seed=4).state_dict()
    checkpoint = {"loaders": {"train": train, "validation": other}}
    checkpoint["itself"] = checkpoint
    torch.save(checkpoint, tmp_path / "step.pt")
    command = ("trace", tmp_path / "step.pt", "--dataset", dataset, "--batch", "0:2")
    assert "choose one with --key" in run(*command).stderr
    assert "only under ['loaders." in run(*command, "--key", "test").stderr
    found = run(*command, "--key", "train", "--format", "json")
    numbers = [row["__row__"] for row in json.loads(found.stdout)]
    assert numbers == make(dataset, seed=3).trace(train).rows(range(2)).tolist()


def test_state_of_chosen_rows_needs_the_same_rows(dataset: Path, tmp_path: Path) -> None:
    loader = make(dataset, rows=[200, 5, 9], shuffling_queue_capacity=0)
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    (tmp_path / "rows.json").write_text("[200, 5, 9]")
    command = ("trace", tmp_path / "state.json", "--dataset", dataset, "--format", "json")
    assert "taken with other rows=" in run(*command, "--batch", 0).stderr
    found = run(*command, "--batch", 0, "--loader-rows", tmp_path / "rows.json")
    assert sorted(row["__row__"] for row in json.loads(found.stdout)) == [5, 9, 200]


def test_wrong_use_prints_error_with_remedy(dataset: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "step.pt"
    taken(make(dataset), checkpoint)
    options = ("--dataset", dataset, "--batch-size", 17)
    assert "batch_size=16" in run("trace", checkpoint, *options, "--batch", 1).stderr
    options = ("--dataset", dataset)
    assert "either --batch or --row" in run("trace", checkpoint, *options).stderr
    assert "beyond the end" in run("trace", checkpoint, *options, "--batch", 999).stderr
    assert "row must be" in run("trace", checkpoint, *options, "--row", 999).stderr
    torch.save([1], checkpoint)
    assert "contains no state" in run("trace", checkpoint, *options, "--row", 1).stderr
    torch.save(np.arange(3), checkpoint)
    assert "save the state alone" in run("trace", checkpoint, *options, "--row", 1).stderr
    spec = TransformSpec(lambda frame: frame)
    loader = make(dataset, transform_spec=spec, cur_shard=0, shard_count=2)
    taken(loader, checkpoint)
    assert "keeps_rows=True" in run("trace", checkpoint, *options, "--row", 1).stderr
