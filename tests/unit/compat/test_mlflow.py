"""`mdstorm.mlflow` with real MLflow, whose runs are in a local directory."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.kit.readers import continue_as_another_process
from tests.kit.small_datasets import write_dataset

from mdstorm import make_batch_reader
from mdstorm.errors import ArgumentTypeError, MissingDependencyError
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import Stream, StreamingDataLoader, StreamingDataset, open_dataset

mlflow = pytest.importorskip("mlflow")
lineage = pytest.importorskip("mdstorm.mlflow")

pytestmark = pytest.mark.newest

ROWS = 500
Artifact = Callable[[str], Path]


@pytest.fixture(autouse=True)
def run(mlflow_run: str) -> str:
    """The id of the active run."""
    return mlflow_run


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("mlflow") / "data"
    columns, fields = {"number": range(ROWS)}, {"number": "long"}
    return write_dataset(directory, columns, fields, shard_size=1_000).url


def converter_of(url: str) -> SparkDatasetConverter:
    dataset = open_dataset(url)
    return SparkDatasetConverter(url, dataset.file_urls, len(dataset))


def logged(run: str) -> tuple[Any, dict[str, Any], str]:
    """Return the only logged dataset of a run, its profile, and the context."""
    (found,) = mlflow.get_run(run).inputs.dataset_inputs
    (tag,) = found.tags
    return found.dataset, json.loads(found.dataset.profile), tag.value


def artifact(run: str, name: str) -> Path:
    return Path(mlflow.artifacts.download_artifacts(f"runs:/{run}/mdstorm/{name}"))


SOURCES: dict[str, Callable[[str], Any]] = {
    "converter": converter_of,
    "torch": lambda url: converter_of(url).make_torch_dataloader(16),
    "tf": lambda url: converter_of(url).make_tf_dataset(16),
    "reader": make_batch_reader,
    "streaming": lambda url: StreamingDataset(local=url.removeprefix("file://"), batch_size=8),
}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=pytest.mark.long if name == "tf" else ())
        for name, make in SOURCES.items()
    ],
)
def test_logged_input_has_url_content_identity_columns_and_number_of_rows(
    make: Callable[[str], Any], url: str, run: str
) -> None:
    lineage.log_input(make(url), "validation")
    found, profile, context = logged(run)
    assert found.source_type == "mdstorm"
    assert json.loads(found.source)["uri"].endswith(url.removeprefix("file://"))
    assert found.digest == open_dataset(url).content_identity()
    assert len(found.digest) <= 36
    assert json.loads(found.schema) == {"number": "int64"}
    assert (profile, context) == ({"num_rows": ROWS}, "validation")


def test_logged_table_has_its_version(tmp_path: Path, run: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    for _ in range(2):
        deltalake.write_deltalake(tmp_path / "table", pa.table({"n": [1, 2]}), mode="append")
    with make_batch_reader((tmp_path / "table").as_uri(), version=0) as reader:
        lineage.log_input(reader)
    found, profile, _ = logged(run)
    assert json.loads(found.source)["version"] == 0
    assert profile == {"num_rows": 2}
    assert len(mlflow.data.get_source(found).load()) == 2


def test_logged_streams_have_the_rows_of_all_and_no_version(
    tmp_path: Path, url: str, run: str
) -> None:
    other = write_dataset(tmp_path / "other", {"number": range(3)}, {"number": "long"}).url
    streams = [Stream(local=one.removeprefix("file://")) for one in (url, other)]
    lineage.log_input(StreamingDataset(streams=streams, batch_size=8))
    dataset, profile, _ = logged(run)
    assert profile == {"num_rows": ROWS + 3}
    assert json.loads(dataset.source)["version"] is None


@pytest.mark.parametrize(
    "url",
    ["s3://user:secret@bucket/x", "https://host/x?sig=secret", "s3://b/x?X-Amz-Signature=secret"],
)
def test_source_hides_credentials_and_signatures(url: str) -> None:
    assert "secret" not in lineage.StoredData(url).to_json()


@pytest.mark.parametrize(
    ("chosen", "where"),
    [
        ({"rows": [3, 1, 7]}, ""),
        ({"where": [("number", "in", [1, 3, 7])]}, "[('number', 'in', [1, 3, 7])]"),
        ({"rows": range(8), "where": pc.field("number") == 5}, "(number == 5)"),
    ],
)
def test_logged_input_has_conditions_hash_and_numbers_of_chosen_rows(
    chosen: dict[str, Any], where: str, url: str, run: str
) -> None:
    loader = converter_of(url).make_torch_dataloader(2, num_epochs=1, **chosen)
    lineage.log_input(loader)
    found, profile, _ = logged(run)
    read = sorted(number for batch in loader for number in batch["number"].tolist())
    assert (profile["num_rows"], profile["where"]) == (len(read), where)
    assert profile["rows"] == loader.state_dict()["mdstorm"]["rows"]
    assert sorted(np.load(artifact(run, "rows.npz"))["rows"]) == read
    assert found.digest != open_dataset(url).content_identity()


def test_only_rank_0_logs(url: str, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    loader = converter_of(url).make_torch_dataloader(16, cur_shard="auto")
    lineage.log_input(loader)
    lineage.log_state(loader)
    assert not mlflow.get_run(run).inputs.dataset_inputs
    assert not mlflow.artifacts.list_artifacts(run_id=run)


@pytest.mark.parametrize("log", [lineage.log_input, lineage.log_state])
def test_other_objects_raise_error(log: Callable[[Any], None]) -> None:
    with pytest.raises(ArgumentTypeError, match="reader, loader or dataset of mdstorm, found list"):
        log([1, 2])


def test_missing_mlflow_raises_error_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.delitem(sys.modules, "mdstorm.mlflow")
    with pytest.raises(MissingDependencyError, match=r'pip install "mdstorm\[mlflow\]"'):
        importlib.import_module("mdstorm.mlflow")


def random_loader(random: np.random.Generator, url: str) -> tuple[int, Callable[[int], Any]]:
    """Return a number of ranks, and a function that makes a rank's loader with random settings."""
    size, batch_size, seed = (int(random.integers(*of)) for of in ((1, 4), (1, 40), (1, 100)))
    if random.random() < 0.3:
        drop_last, shuffle = (bool(random.random() < 0.5) for _ in range(2))
        how = {"batch_size": batch_size, "shuffle": shuffle, "shuffle_seed": seed}
        path = url.removeprefix("file://")
        return size, lambda rank: StreamingDataLoader(
            StreamingDataset(local=path, world=(rank, size), **how),
            batch_size,
            drop_last=drop_last,
        )
    given: dict[str, Any] = {
        "num_epochs": int(random.integers(1, 3)),
        "shuffling_queue_capacity": int(random.choice([0, 50, ROWS])),
        "order": str(random.choice(["exact", "elastic"])),
        "seed": seed,
        "shard_count": size,
    }
    converter = converter_of(url)
    return size, lambda rank: converter.make_torch_dataloader(batch_size, cur_shard=rank, **given)


@pytest.mark.parametrize("seed", range(20))
def test_run_id_gives_rows_of_each_step(seed: int, url: str, run: str) -> None:
    random = np.random.default_rng(seed)
    size, make = random_loader(random, url)
    before, steps = int(random.integers(0, 3)), []
    for rank in range(size):
        continue_as_another_process()
        loader = make(rank)
        batches = iter(loader)
        for _ in range(before):
            next(batches)
        if rank == 0:
            lineage.log_state(loader)
        steps.append([batch["number"].tolist() for batch in batches])
    trace = lineage.load_trace(run)
    for rank, numbers in enumerate(steps):
        assert [trace.rows(step, rank).tolist() for step in range(len(numbers))] == numbers


def test_state_of_moved_data_is_traced_at_another_url(url: str, run: str, tmp_path: Path) -> None:
    table = pa.table({"n": range(100), "x": [0.5] * 100})
    pq.write_table(table, tmp_path / "before.parquet", row_group_size=10)
    source = (tmp_path / "before.parquet").as_uri()
    loader = make_spark_converter(source).make_torch_dataloader(7, num_epochs=1)
    lineage.log_state(loader)
    steps = [batch["n"].tolist() for batch in loader]
    assert [lineage.load_trace(run).rows(step).tolist() for step in range(len(steps))] == steps
    assert lineage.load_trace(run, url=source).rows(3).tolist() == steps[3]


def test_state_of_a_reader_gives_rows_of_its_row_groups(url: str, run: str) -> None:
    with make_batch_reader(url, num_epochs=1, seed=3) as reader:
        lineage.log_state(reader)
        rows = [number for batch in reader for number in batch.number.tolist()]
    trace = lineage.load_trace(run)
    shards = len(open_dataset(url).shard_sizes)
    assert trace.rows(range(shards)).tolist() == rows
