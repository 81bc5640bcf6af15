"""`mdstorm.mlflow` with real MLflow, whose runs are in a local directory."""

import importlib
import json
import os
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.kit.programs import run_program
from tests.kit.small_datasets import write_dataset

from mdstorm import make_batch_reader
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, MissingDependencyError
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import Stream, StreamingDataset, open_dataset

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
    return Path(mlflow.artifacts.download_artifacts(f"runs:/{run}/mdstorm/training/{name}"))


SOURCES: dict[str, Callable[[str], Any]] = {
    "converter": converter_of,
    "torch": lambda url: converter_of(url).make_torch_dataloader(16),
    "tf": lambda url: converter_of(url).make_tf_dataset(16),
    "reader": make_batch_reader,
    "streaming": lambda url: StreamingDataset(local=url.removeprefix("file://"), batch_size=8),
    "dataset": open_dataset,
    "reader's dataset": lambda url: make_batch_reader(url).dataset,
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
    columns = json.loads(found.schema)["mlflow_colspec"]
    assert columns == [{"name": "number", "type": "long", "required": True}]
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


def test_logged_streams_have_the_rows_of_all_and_open_again(
    tmp_path: Path, url: str, run: str
) -> None:
    other = write_dataset(tmp_path / "other", {"number": range(3)}, {"number": "long"}).url
    streams = [Stream(local=one.removeprefix("file://")) for one in (url, other)]
    lineage.log_input(StreamingDataset(streams=streams, batch_size=8))
    dataset, profile, _ = logged(run)
    assert profile == {"num_rows": ROWS + 3}
    assert json.loads(dataset.source) == {"uri": [url, other], "version": None}
    assert mlflow.data.get_source(dataset).load().to_table()["number"].to_pylist()[-4:] == [
        ROWS - 1,
        0,
        1,
        2,
    ]


def test_converter_over_some_shards_logs_exactly_these(url: str, run: str) -> None:
    whole = open_dataset(url)
    chosen = [whole.file_urls[3], whole.file_urls[1]]
    rows = whole.shard_sizes[3] + whole.shard_sizes[1]
    converter = SparkDatasetConverter(url, chosen, rows)
    lineage.log_input(converter)
    found, profile, _ = logged(run)
    read = make_batch_reader(chosen).dataset
    assert found.digest == read.content_identity() != whole.content_identity()
    assert profile == {"num_rows": rows}
    assert json.loads(found.source)["files"] == [Path(one).name for one in chosen]
    numbers = mlflow.data.get_source(found).load().to_table()["number"].to_pylist()
    assert numbers == read.to_table()["number"].to_pylist()


def test_files_that_are_too_many_for_mlflow_are_counted(tmp_path: Path, run: str) -> None:
    names = [f"{number:0200}.parquet" for number in range(400)]
    for name in names:
        os.link(_small_file(tmp_path), tmp_path / name)
    with make_batch_reader([(tmp_path / name).as_uri() for name in names]) as reader:
        lineage.log_input(reader)
    found, profile, _ = logged(run)
    assert (json.loads(found.source)["files"], profile) == (400, {"num_rows": 400})
    with pytest.raises(InvalidArgumentError, match=r"400 files .*load_trace"):
        mlflow.data.get_source(found).load()


def _small_file(directory: Path) -> Path:
    path = directory / "small"
    if not path.exists():
        pq.write_table(pa.table({"number": [7]}), path)
    return path


def test_same_data_in_two_contexts_are_two_inputs(url: str, run: str) -> None:
    for context in ("training", "validation", "training"):
        lineage.log_input(converter_of(url), context)
    inputs = mlflow.get_run(run).inputs.dataset_inputs
    found = {one.tags[0].value: (one.dataset.name, one.dataset.digest) for one in inputs}
    name, digest = found["training"]
    assert found == {"training": (name, digest), "validation": (f"{name} (validation)", digest)}
    assert name == url


def test_metric_is_logged_with_what_log_input_returns(url: str, run: str) -> None:
    dataset = lineage.log_input(converter_of(url))
    mlflow.log_metric("loss", 0.5, step=3, dataset=dataset)
    (metric,) = mlflow.MlflowClient().get_metric_history(run, "loss")
    assert (metric.dataset_name, metric.dataset_digest) == (dataset.name, dataset.digest)
    assert len(mlflow.get_run(run).inputs.dataset_inputs) == 1


def test_columns_are_logged_in_the_form_of_mlflow(tmp_path: Path, run: str) -> None:
    types = pytest.importorskip("mlflow.types")
    columns = {
        "flag": pa.array([True, None]),
        "small": pa.array([1, 2], pa.int16()),
        "large": pa.array([1, 2], pa.uint32()),
        "half": pa.array([1, 2], pa.float32()),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "day": pa.array([date(2024, 1, 2)] * 2),
        "text": ["a", "b"],
        "content": [b"a", b"b"],
        "list": [[1.5], [2.5]],
        "nested": [[[1]], [[2]]],
        "struct": [{"x": 1}, {"x": None}],
    }
    pq.write_table(pa.table(columns), tmp_path / "all.parquet")
    lineage.log_input(make_spark_converter((tmp_path / "all.parquet").as_uri()))
    found, _, _ = logged(run)
    schema = types.Schema.from_json(json.dumps(json.loads(found.schema)["mlflow_colspec"]))
    names = ["boolean", "integer", "long", "float", "double", "datetime", "string", "binary"]
    assert {one.name: one.type.name for one in schema.inputs[:8]} == dict(
        zip(columns, names, strict=False)
    )
    assert [one.name for one in schema.inputs if not one.required][:2] == ["flag", "price"]


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


@pytest.fixture
def no_run(run: str) -> None:
    """A process in which no run is active."""
    mlflow.end_run()


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize("log", [lineage.log_input, lineage.log_state])
def test_logging_without_a_run_raises_and_leaves_none_open(
    log: Callable[[Any], None], url: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no run .* mlflow.start_run\(\)"):
        log(converter_of(url).make_torch_dataloader(16))
    assert mlflow.active_run() is None


@pytest.mark.usefixtures("no_run")
def test_run_of_a_launcher_is_used_without_being_opened(
    url: str, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", run)
    loader = converter_of(url).make_torch_dataloader(16, num_epochs=1)
    lineage.log_input(loader)
    lineage.log_state(loader)
    assert mlflow.active_run() is None
    assert len(mlflow.get_run(run).inputs.dataset_inputs) == 1
    (first, *_) = loader
    assert lineage.load_trace(run).rows(0).tolist() == first["number"].tolist()


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize("absent", ["sqlalchemy", pytest.param("alembic", marks=pytest.mark.long)])
def test_store_that_lacks_a_module_gets_a_message_that_names_it(
    absent: str, tmp_path: Path
) -> None:
    program = f"""
import sys
sys.modules[{absent!r}] = None  # as if it were not installed
import mlflow, mdstorm.mlflow
from mdstorm.errors import MissingDependencyError
mlflow.set_tracking_uri("sqlite:///{tmp_path}/runs.db")
try:
    mdstorm.mlflow.load_trace("0" * 32)
except MissingDependencyError as error:
    print(error)
"""
    assert f"pip install {absent}" in run_program(program, cwd=tmp_path).stdout
