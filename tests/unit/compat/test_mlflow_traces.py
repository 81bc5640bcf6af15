"""`load_trace`: from a run alone, the rows and files of each step, or what has changed since."""

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.states.programs import copied
from tests.kit.readers import continue_as_another_process
from tests.kit.small_datasets import write_dataset

from mdstorm import TransformSpec, make_batch_reader, make_reader
from mdstorm.errors import DatasetChangedError, InvalidArgumentError, StateMismatchError
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import Stream, StreamingDataLoader, StreamingDataset

mlflow = pytest.importorskip("mlflow")
lineage = pytest.importorskip("mdstorm.mlflow")

pytestmark = pytest.mark.newest

ROWS = 200
Make = Callable[[Path, int, int], Any]
Batch = dict[str, Any]


@pytest.fixture(autouse=True)
def run(mlflow_run: str) -> str:
    """The id of the active run."""
    return mlflow_run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets of several kinds, and a folder of files that a column names."""
    return write_data(tmp_path_factory.mktemp("logged"))


def write_data(at: Path) -> Path:
    for name, first in (("mds", 0), ("other", 1000)):
        numbers = range(first, first + ROWS)
        columns = {"number": numbers, "path": [f"{at}/files/{number}.bin" for number in numbers]}
        fields = {"number": "long", "path": "string"}
        write_dataset(at / name, columns, fields, tasks=6, shard_size=100_000)
    (at / "files").mkdir()
    for number in range(ROWS):
        (at / "files" / f"{number}.bin").write_bytes(f"content {number}".encode())
    (at / "parquet").mkdir()
    for part in range(3):
        numbers = np.arange(part * 60, part * 60 + 60)
        table = {
            "number": numbers,
            "price": pa.array([Decimal(f"{n}.25") for n in numbers], pa.decimal128(9, 2)),
        }
        path = at / "parquet" / f"{part}.parquet"
        pq.write_table(pa.table(table), path, row_group_size=25)
    return at


def converter_of(*paths: Path) -> SparkDatasetConverter:
    if len(paths) == 1:
        return make_spark_converter(paths[0].as_uri())
    return SparkDatasetConverter(None, [path.as_uri() for path in paths], 0)


def shards(at: Path, *numbers: int) -> list[Path]:
    return [Path(sorted((at / "mds").glob("*.mds"))[number]) for number in numbers]


def torch_loader(make: Callable[[Path], SparkDatasetConverter], **given: Any) -> Make:
    """Return a function that makes a rank's loader over a converter."""

    def loader(at: Path, rank: int, size: int) -> Any:
        settings = {"num_epochs": 2, "shuffling_queue_capacity": 50, "seed": 5, **given}
        if "files" in settings:
            settings["files_below"] = [(at / "files").as_uri()]
        return make(at).make_torch_dataloader(8, cur_shard=rank, shard_count=size, **settings)

    return loader


def tf_loader(at: Path, rank: int, size: int) -> Any:
    pytest.importorskip("tensorflow")
    given = {"num_epochs": 2, "shuffling_queue_capacity": 50, "seed": 5}
    return converter_of(at / "mds").make_tf_dataset(8, cur_shard=rank, shard_count=size, **given)


def streaming_loader(*names: str, weights: Any = ({}, {}), **given: Any) -> Make:
    """Return a function that makes a rank's loader over streams, with one global batch size."""

    def loader(at: Path, rank: int, size: int) -> Any:
        streams = [
            Stream(local=str(at / name), **weight)
            for name, weight in zip(names, weights, strict=False)
        ]
        settings = {"shuffle": True, "shuffle_seed": 3, **given}
        batch_size = 8 // size
        dataset = StreamingDataset(
            streams=streams, batch_size=batch_size, world=(rank, size), **settings
        )
        return StreamingDataLoader(dataset, batch_size)

    return loader


PROPORTIONS = [{"proportion": 0.7}, {"proportion": 0.3}]
LOADERS: dict[str, Make] = {
    "torch": torch_loader(lambda at: converter_of(at / "mds")),
    "elastic": streaming_loader("mds"),
    "canonical nodes": streaming_loader("mds", num_canonical_nodes=8),
    "list of Parquet files": torch_loader(
        lambda at: converter_of(at / "parquet" / "2.parquet", at / "parquet" / "0.parquet"),
        decimals="float32",
    ),
    "directory of Parquet files": torch_loader(
        lambda at: converter_of(at / "parquet"), decimals="float64"
    ),
    "some shards": torch_loader(lambda at: converter_of(*shards(at, 4, 1))),
    "files": torch_loader(lambda at: converter_of(at / "mds"), files={"image": "path"}),
    "rows": torch_loader(
        lambda at: converter_of(at / "mds"), rows=np.random.default_rng(3).permutation(90)
    ),
    "rows of a list": torch_loader(
        lambda at: converter_of(*shards(at, 4, 1)), where=[("number", ">", 40)]
    ),
    "two streams": streaming_loader("mds", "other"),
    "streams, each batch from one": streaming_loader("mds", "other", batching_method="per_stream"),
    "streams with proportions": streaming_loader("mds", "other", weights=PROPORTIONS),
    "streams with an epoch size": streaming_loader(
        "mds", "other", weights=PROPORTIONS, epoch_size=150
    ),
    "tf": tf_loader,
}


def values_of(batch: Any) -> Batch:
    """Return the columns of a batch of PyTorch or TensorFlow as lists."""
    columns = batch._asdict() if hasattr(batch, "_asdict") else batch
    found = {
        name: values.numpy().tolist() if hasattr(values, "numpy") else list(values)
        for name, values in columns.items()
    }
    if hasattr(batch, "_asdict"):  # TensorFlow's strings are bytes
        found["path"] = [path.decode() for path in found["path"]]
    return found


@dataclass
class Interrupted:
    """A loader that is read on one rank, and resumes on two ranks."""

    make: Make
    at: Path
    name: str
    given: dict[str, Any] = field(default_factory=dict)
    steps: list[list[Batch]] = field(default_factory=list)
    state: Any = None

    def begin(self, steps: int | None) -> None:
        continue_as_another_process()
        loader = self.make(self.at, 0, 1)
        lineage.log_state(loader, self.name, **self.given)
        batches = iter(loader)
        self.steps += [[values_of(batch)] for batch in islice(batches, steps)]
        self.state = loader.state_dict()
        # Batches after the checkpoint are lost.
        with suppress(StopIteration):
            next(batches)

    def resume(self, steps: int | None = None) -> None:
        ranks, state = [], self.state
        for rank in range(2):
            continue_as_another_process()
            loader = self.make(self.at, rank, 2)
            loader.load_state_dict(state)
            if rank == 0:
                lineage.log_state(loader, self.name, **self.given)
            ranks.append([values_of(batch) for batch in islice(loader, steps)])
            self.state = loader.state_dict()
        self.steps += [list(of_ranks) for of_ranks in zip(*ranks, strict=True)]

    def check(self, trace: Any) -> None:
        for step, of_ranks in enumerate(self.steps):
            for rank, batch in enumerate(of_ranks):
                rows = trace.dataset[trace.rows(step, rank)]
                for name, values in batch.items():
                    assert [row[name] for row in rows] == values, (step, rank, name)


#: In the gate, each kind of data, of selection and of order is resumed once.
QUICK = {
    *("canonical nodes", "directory of Parquet files", "files", "rows of a list"),
    "streams with proportions",
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.long) for kind in LOADERS],
)
def test_run_has_rows_of_each_step_of_each_loader_on_each_rank_across_resumes(
    kind: str, data: Path, run: str
) -> None:
    given = {"file_versions": True} if kind == "files" else {}
    training = Interrupted(LOADERS[kind], data, "training", given)
    validation = Interrupted(torch_loader(lambda at: converter_of(at / "other")), data, "eval")
    for one in (training, validation):
        one.begin(9)
    for one in (training, validation):
        one.resume(4)
    for one in (training, validation):
        one.resume()
    assert min(len(training.steps), len(validation.steps)) > 15
    training.check(lineage.load_trace(run, files_below=[str(data / "files")]))
    validation.check(lineage.load_trace(run, "eval"))


def steps_of(loader: Any) -> list[list[int]]:
    return [values_of(batch)["number"] for batch in loader]


def traced(trace: Any, steps: list[list[int]], first: int = 0) -> None:
    """Check that a run's steps have these rows, whose numbers are those of the data."""
    found = [trace.rows(first + step).tolist() for step in range(len(steps))]
    assert found == steps
    assert trace.rows(range(first, first + len(steps))).tolist() == [*chain(*steps)]
    backwards = [*range(first, first + len(steps))][::-1]
    assert trace.rows(backwards).tolist() == [*chain(*steps[::-1])]


@pytest.mark.parametrize("kind", ["torch", "elastic"])
def test_steps_continue_over_passes(kind: str, data: Path, run: str) -> None:
    make = {"torch": torch_loader(lambda at: converter_of(at / "mds"), num_epochs=1)}
    loader = make.get(kind, LOADERS[kind])(data, 0, 1)
    lineage.log_state(loader)
    steps = [step for _ in range(3) for step in steps_of(loader)]
    trace = lineage.load_trace(run)
    traced(trace, steps)
    lineage.log_state(loader)  # where the third pass ended
    steps += steps_of(loader)
    traced(lineage.load_trace(run), steps)


def test_endless_pass_resumes_at_the_step_of_its_checkpoint(data: Path, run: str) -> None:
    make = torch_loader(lambda at: converter_of(at / "mds"), num_epochs=None)
    loader = make(data, 0, 1)
    lineage.log_state(loader)
    batches = iter(loader)
    steps = [values_of(next(batches))["number"] for _ in range(70)]
    state = loader.state_dict()
    continue_as_another_process()
    loader = make(data, 0, 1)
    loader.load_state_dict(state)
    lineage.log_state(loader)
    steps += [values_of(batch)["number"] for batch in islice(loader, 20)]
    trace = lineage.load_trace(run)
    traced(trace, steps)
    assert "from step 70: Trace(" in repr(trace)
    row = steps[80][0]
    assert trace.where(row) == (next(i for i, step in enumerate(steps) if row in step), 0)
    found = trace.find([row], range(4)).to_pydict()["batch"]
    assert [step for step in found if step < 90] == [i for i, s in enumerate(steps) if row in s]


def test_reader_resumes_at_the_step_of_its_checkpoint(data: Path, run: str) -> None:
    def make() -> Any:
        return make_batch_reader((data / "parquet").as_uri(), num_epochs=2, seed=3)

    with make() as reader:
        lineage.log_state(reader)
        steps = [next(reader).number.tolist() for _ in range(7)]
        state = reader.state_dict()
        next(reader)
    continue_as_another_process()
    with make() as reader:
        reader.load_state_dict(state)
        lineage.log_state(reader)
        steps += [batch.number.tolist() for batch in reader]
    traced(lineage.load_trace(run), steps)


@pytest.mark.parametrize("count", [9, 12, 20])
def test_reader_resumes_at_the_step_of_a_checkpoint_in_a_later_pass(
    count: int, data: Path, run: str
) -> None:
    def make() -> Any:
        return make_batch_reader((data / "parquet").as_uri(), num_epochs=1, seed=3)

    steps: list[list[int]] = []
    with make() as reader:
        lineage.log_state(reader)
        while len(steps) < count:
            steps += [batch.number.tolist() for batch in islice(reader, count - len(steps))]
            state = reader.state_dict()
            if reader.last_row_consumed:
                reader.reset()
    continue_as_another_process()
    with make() as reader:
        reader.load_state_dict(state)
        lineage.log_state(reader)
        steps += [batch.number.tolist() for batch in reader]
    traced(lineage.load_trace(run), steps)


def test_run_that_goes_back_to_an_earlier_checkpoint_has_the_later_steps(
    data: Path, run: str
) -> None:
    loader = LOADERS["torch"](data, 0, 1)
    lineage.log_state(loader)
    states, steps = [], []
    for batch in islice(loader, 12):
        states.append(loader.state_dict())
        steps.append(values_of(batch)["number"])
    for before in (10, 4):
        continue_as_another_process()
        loader = LOADERS["torch"](data, 0, 1)
        loader.load_state_dict(states[before - 1])
        lineage.log_state(loader)
    steps = steps[:4] + steps_of(loader)
    traced(lineage.load_trace(run), steps)
    continue_as_another_process()
    loader = LOADERS["torch"](data, 0, 1)
    lineage._logged.clear()  # another process, which begins again
    lineage.log_state(loader)
    traced(lineage.load_trace(run), steps_of(loader))


def test_steps_are_counted_from_a_given_one(data: Path, run: str) -> None:
    loader = LOADERS["torch"](data, 0, 1)
    lineage.log_state(loader, step=300)
    steps = steps_of(loader)
    trace = lineage.load_trace(run)
    traced(trace, steps, 300)
    with pytest.raises(InvalidArgumentError, match=r"step 299 .* begins at step 300"):
        trace.rows(299)
    for wrong in (-1, "x", slice(3)):
        with pytest.raises(InvalidArgumentError, match="step must be an integer"):
            trace.rows(wrong)


def test_state_of_an_unknown_step_needs_the_step(data: Path, run: str) -> None:
    loader = LOADERS["torch"](data, 0, 1)
    lineage.log_state(loader)
    other = make_spark_converter((data / "mds").as_uri()).make_torch_dataloader(
        5, num_epochs=2, shuffling_queue_capacity=50, seed=5
    )
    batches = iter(other)
    next(batches)
    continue_as_another_process()
    loader = LOADERS["torch"](data, 0, 1)
    loader.load_state_dict(other.state_dict())
    with pytest.raises(InvalidArgumentError, match=r"not known which step .* pass step="):
        lineage.log_state(loader)
    lineage.log_state(loader, step=1)
    steps = steps_of(loader)
    traced(lineage.load_trace(run), steps, 1)


def test_two_loaders_under_one_name_raise(data: Path, run: str) -> None:
    lineage.log_state(LOADERS["torch"](data, 0, 1))
    others = {
        "shuffle_rows": torch_loader(lambda at: converter_of(at / "mds"), shuffle_row_groups=False),
        "order": LOADERS["elastic"],
        "rows": LOADERS["rows"],
        "dataset": torch_loader(lambda at: converter_of(at / "other")),
        "read nothing": LOADERS["torch"],
    }
    for make in others.values():
        with pytest.raises(InvalidArgumentError, match=r"another loader .*'training'.* name="):
            lineage.log_state(make(data, 0, 1))
    for name, make in others.items():
        lineage.log_state(make(data, 0, 1), "validation", name=name)
    traces = {name: lineage.load_trace(run, name) for name in (None, *others)}
    assert len(traces) == len(others) + 1
    with pytest.raises(InvalidArgumentError, match=r"no `log_state` of a loader 'x', only of \["):
        lineage.load_trace(run, "x")


def test_name_that_cannot_be_a_folder_raises(data: Path) -> None:
    for name in ("", "../up", ".hidden", "a/b"):
        with pytest.raises(InvalidArgumentError, match="name of a loader"):
            lineage.log_state(LOADERS["torch"](data, 0, 1), name=name)


def test_run_without_a_state_says_so(run: str) -> None:
    with pytest.raises(InvalidArgumentError, match="this run has no `log_state`"):
        lineage.load_trace(run)
    mlflow.log_dict({}, "mdstorm/training/other.json")
    with pytest.raises(InvalidArgumentError, match="this run has no `log_state`"):
        lineage.load_trace(run)


@pytest.mark.parametrize(
    ("why", "given"),
    [
        ("may drop rows", {"transform_spec": TransformSpec(lambda frame: frame)}),
        ("row groups", {"shuffle_row_drop_partitions": 2}),
        ("may drop rows", {"filters": [("number", "<", 50)]}),
    ],
)
def test_rows_that_only_reading_shows_are_refused_with_the_reason(
    why: str, given: dict[str, Any], data: Path, run: str
) -> None:
    given = {"decimals": "float64", **given}
    loader = torch_loader(lambda at: converter_of(at / "parquet"), **given)(data, 0, 1)
    for _ in range(2):
        lineage.log_state(loader)
    with pytest.raises(InvalidArgumentError, match=f"{why}.* create the loader again"):
        lineage.load_trace(run)


CHANGES: dict[str, Callable[[Path], None]] = {
    "mds": lambda at: rewrite(at / "mds", range(ROWS - 1, -1, -1)),
    "parquet": lambda at: write_parquet_again(at / "parquet" / "1.parquet"),
}


def rewrite(directory: Path, numbers: Any) -> None:
    """Write a dataset again whose files have the same names and sizes."""
    shutil.rmtree(directory)
    paths = [f"{directory.parent}/files/{number}.bin" for number in numbers]
    columns, fields = {"number": numbers, "path": paths}, {"number": "long", "path": "string"}
    write_dataset(directory, columns, fields, tasks=6, shard_size=100_000)


def write_parquet_again(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "number", pa.array(range(60))), path, row_group_size=25)


@pytest.mark.parametrize("kind", CHANGES)
def test_data_that_have_changed_since_are_named(kind: str, tmp_path: Path, run: str) -> None:
    at = write_data(tmp_path)
    loader = torch_loader(lambda at: converter_of(at / kind), decimals="float64")(at, 0, 1)
    lineage.log_state(loader)
    lineage.load_trace(run)
    CHANGES[kind](at)
    with pytest.raises(DatasetChangedError, match=f"{at}/{kind}"):
        lineage.load_trace(run)


def test_image_that_has_changed_since_is_named(tmp_path: Path, run: str) -> None:
    at = write_data(tmp_path)
    loader = LOADERS["files"](at, 0, 1)
    lineage.log_state(loader, file_versions=True)
    trace = lineage.load_trace(run, files_below=[(at / "files").as_uri()])
    rows = trace.rows(3)
    assert [one["image"] for one in trace.dataset[rows]] == [f"content {n}".encode() for n in rows]
    (at / "files" / f"{rows[2]}.bin").write_bytes(f"CONTENT {rows[2]}".encode())  # as many bytes
    with pytest.raises(DatasetChangedError, match=f"{at}/files/{rows[2]}.bin has changed since"):
        trace.dataset[rows]
    assert len(trace.dataset[rows[:2]]) == 2
    (at / "files" / f"{rows[0]}.bin").unlink()
    with pytest.raises(DatasetChangedError, match=f"{at}/files/{rows[0]}.bin has changed since"):
        lineage.load_trace(run, files_below=[str(at / "files")]).dataset[rows[:1]]


def test_run_does_not_decide_which_files_are_read(data: Path, run: str) -> None:
    lineage.log_state(LOADERS["files"](data, 0, 1))
    logged = mlflow.artifacts.load_dict(f"runs:/{run}/mdstorm/training/data/000000.json")
    logged["files"]["files_below"] = ["/"]
    mlflow.log_dict(logged, "mdstorm/training/data/000000.json")
    trace = lineage.load_trace(run)
    row = int(trace.rows(0)[0])
    with pytest.raises(InvalidArgumentError, match=r"not in an allowed .* trust in files_below"):
        trace.dataset[row]


def test_directory_of_listed_files_is_named_by_who_loads_the_run(data: Path, run: str) -> None:
    names = [{"name": f"files/{number}.bin"} for number in range(3)]
    listed = []
    for part in range(2):
        listed.append(data / f"named-{part}.parquet")
        pq.write_table(pa.Table.from_pylist(names), listed[-1])
    # Only a run that somebody wrote has relative paths here: a loader over a list refuses them.
    loader = converter_of(*listed).make_torch_dataloader(2, num_epochs=1)
    lineage.log_state(loader)
    logged = mlflow.artifacts.load_dict(f"runs:/{run}/mdstorm/training/data/000000.json")
    logged["files"] = {"files": {"content": "name"}}
    mlflow.log_dict(logged, "mdstorm/training/data/000000.json")
    with pytest.raises(InvalidArgumentError, match="is relative"):
        lineage.load_trace(run).dataset[0]
    named = lineage.load_trace(run, url=data.as_uri()).dataset[0]
    assert named["content"] == b"content 0"


def test_copied_data_are_compared_by_fingerprint(tmp_path: Path, run: str) -> None:
    at = write_data(tmp_path / "before")
    loader = LOADERS["torch"](at, 0, 1)
    lineage.log_state(loader)
    shutil.copytree(at / "mds", tmp_path / "copy")
    url = (tmp_path / "copy").as_uri()
    steps = steps_of(loader)
    traced(lineage.load_trace(run, url=url), steps)
    rewrite(tmp_path / "copy", range(7, ROWS + 7))
    write_dataset(tmp_path / "third", {"number": range(ROWS)}, {"number": "long"})
    with pytest.raises(StateMismatchError, match="third are not those that the run read at"):
        lineage.load_trace(run, url=(tmp_path / "third").as_uri())
    os.utime(at / "mds" / "index.json", (1, 1))
    with pytest.raises(DatasetChangedError, match=f"written again .* url='file://{at}/mds'"):
        lineage.load_trace(run)
    traced(lineage.load_trace(run, url=(at / "mds").as_uri()), steps)


RECORDED = json.loads(
    (Path(__file__).parents[2] / "contract" / "states" / "logged.json").read_text()
)


@pytest.mark.parametrize("name", RECORDED)
def test_run_that_an_earlier_version_logged_loads(name: str, tmp_path: Path, run: str) -> None:
    recorded = RECORDED[name]
    mlflow.log_dict(recorded["logged"], "mdstorm/state.json")
    if recorded["rows"] is not None:
        np.savez_compressed(tmp_path / "rows.npz", rows=recorded["rows"])
        mlflow.log_artifact(str(tmp_path / "rows.npz"), "mdstorm")
    place = recorded["logged"]["source"]["uri"].partition("/data/")[2]
    copied(tmp_path / "data")
    trace = lineage.load_trace(run, url=(tmp_path / "data" / place).as_uri())
    numbers = [
        [int(row["number"]) for row in trace.dataset[trace.rows(step)]]
        for step in range(len(recorded["steps"]))
    ]
    assert numbers == recorded["steps"]


@pytest.mark.filterwarnings("ignore:Please use make_reader")
def test_petastorm_data_are_decoded_as_the_reader_decodes_them(tmp_path: Path, run: str) -> None:
    places = (copied(tmp_path) / "places").as_uri()
    for name, make in (("decoded", make_reader), ("stored", make_batch_reader)):
        with make(places, num_epochs=1, shuffle_row_groups=False) as reader:
            lineage.log_state(reader, name=name)
            found = next(reader)._asdict()
        trace = lineage.load_trace(run, name)
        row = trace.dataset[int(trace.rows(0)[0])]
        for key, value in found.items():
            first = value if name == "decoded" else value[0]
            np.testing.assert_array_equal(row[key], first, f"{name} {key}")


def test_table_is_read_at_its_logged_version(tmp_path: Path, run: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    table = tmp_path / "table"
    deltalake.write_deltalake(table, pa.table({"number": range(50)}))
    loader = make_spark_converter(str(table)).make_torch_dataloader(8, num_epochs=1, seed=1)
    lineage.log_state(loader)
    steps = steps_of(loader)
    deltalake.write_deltalake(table, pa.table({"number": range(50, 90)}), mode="append")
    trace = lineage.load_trace(run)
    traced(trace, steps)
    assert len(trace.dataset) == 50


def random_loader(random: np.random.Generator, at: Path) -> tuple[int, Callable[[int], Any]]:
    """Return a number of ranks, and a function that makes a rank's loader with random settings."""
    size, batch_size, seed = (int(random.integers(*of)) for of in ((1, 4), (1, 40), (1, 100)))
    if random.random() < 0.3:
        drop_last, shuffle = (bool(random.random() < 0.5) for _ in range(2))
        how = {"batch_size": batch_size, "shuffle": shuffle, "shuffle_seed": seed}
        return size, lambda rank: StreamingDataLoader(
            StreamingDataset(local=str(at / "mds"), world=(rank, size), **how),
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
    converter = converter_of(at / "mds")
    return size, lambda rank: converter.make_torch_dataloader(batch_size, cur_shard=rank, **given)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.long if seed > 2 else ()) for seed in range(20)]
)
def test_run_id_gives_rows_of_each_step(seed: int, data: Path, run: str) -> None:
    random = np.random.default_rng(seed)
    size, make = random_loader(random, data)
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


def random_run(seed: int, at: Path) -> tuple[Callable[[int, int], Any], list[tuple[int, int]]]:
    """Return a function that makes a rank's loader, and the ranks and steps of each part."""
    random = np.random.default_rng(seed)
    is_exact, drop_last = random.random() < 0.3, bool(random.random() < 0.3)
    sizes = [1, 2, 3] if is_exact else [1, 2, 4]
    parts = [(int(random.choice(sizes)), int(random.integers(1, 12))) for _ in range(4)]
    given = {"shuffle_seed": int(random.integers(1, 99)), "shuffle": bool(random.random() < 0.7)}
    given["shuffle_algo"] = str(random.choice(["py1e", "py1s", "py2s", "naive", "py1br"]))
    methods = ["random", "stratified", "per_stream", "device_per_stream"]
    given["batching_method"] = str(random.choice(methods))
    if given["batching_method"] == "device_per_stream":  # the nodes must divide them
        given["num_canonical_nodes"] = 4
    weights = ([{}, {}], PROPORTIONS, [{"repeat": 1.5}, {"choose": 77}])[random.integers(3)]
    exact = {"num_epochs": int(random.integers(1, 4)), "shuffling_queue_capacity": 50}

    def make(rank: int, size: int) -> Any:
        if is_exact:
            return torch_loader(lambda at: converter_of(at / "mds"), **exact)(at, rank, size)
        streams = [
            Stream(local=str(at / name), **weight)
            for name, weight in zip(("mds", "other"), weights, strict=True)
        ]
        batch_size = 12 // size
        world = (rank, size)  # each rank is on its own node
        dataset = StreamingDataset(streams=streams, batch_size=batch_size, world=world, **given)
        return StreamingDataLoader(dataset, batch_size, drop_last=drop_last)

    return make, parts


def log_next(loader: Any, step: int) -> None:
    """Log a state, with its step if several branches of the run come to it."""
    try:
        lineage.log_state(loader)
    except InvalidArgumentError as error:
        if not re.search(rf"each of the steps \[.*\b{step}\b.*\].*pass step=", str(error)):
            raise
        lineage.log_state(loader, step=step)


@pytest.mark.filterwarnings("ignore:Trying to partition")  # tested elsewhere
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.long if seed > 1 else ()) for seed in range(30)]
)
def test_steps_of_a_run_in_changing_worlds_are_those_that_were_read(
    seed: int, data: Path, run: str
) -> None:
    make, parts = random_run(seed, data)
    steps: list[tuple[list[int], ...]] = []
    state = None
    for size, count in parts:
        ranks = []
        for rank in range(size):
            continue_as_another_process()
            lineage._logged.clear()
            loader = make(rank, size)
            if state is not None:
                loader.load_state_dict(state)
            if rank == 0:
                log_next(loader, len(steps))
            batches = iter(loader)  # while it is held, its first batch counts
            ranks.append(steps_of(islice(batches, count)))
        state = loader.state_dict()
        steps += zip(*ranks, strict=True)
    trace = lineage.load_trace(run)
    for step, of_ranks in enumerate(steps):
        for rank, numbers in enumerate(of_ranks):
            rows = trace.dataset[trace.rows(step, rank)]
            assert [row["number"] for row in rows] == numbers, (step, rank)
