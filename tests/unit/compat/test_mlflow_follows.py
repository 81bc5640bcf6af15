"""A run follows its loader: it knows where each iteration begins, from one call of `log_state`."""

import copy
import logging
import os
import pickle
import random
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from tests.kit.readers import continue_as_another_process, write_parquet
from tests.kit.small_datasets import write_numbers

from mdstorm import make_batch_reader
from mdstorm.errors import InvalidArgumentError
from mdstorm.pytorch import BatchedDataLoader
from mdstorm.spark import make_spark_converter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

mlflow = pytest.importorskip("mlflow")
lineage = pytest.importorskip("mdstorm.mlflow")

pytestmark = pytest.mark.newest

ROWS = 120
Make = Callable[[Path, int], Any]


@pytest.fixture(autouse=True)
def run(mlflow_run: str) -> str:
    """The id of the active run."""
    return mlflow_run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("followed")
    write_numbers(at / "mds", ROWS, tasks=4)
    write_parquet(at / "parquet", {"number": range(ROWS)}, 30)
    return at


def converted(method: str = "make_torch_dataloader", **given: Any) -> Make:
    def make(data: Path, size: int) -> Any:
        options = {"num_epochs": 1, "shuffle_rows": True, "seed": 3, "shard_count": size, **given}
        converter = make_spark_converter((data / "mds").as_uri())
        return getattr(converter, method)(6, cur_shard=0, **options)

    return make


def over_reader(data: Path, size: int) -> Any:
    options = {"num_epochs": 1, "seed": 3, "shuffle_rows": True}
    reader = make_batch_reader(
        (data / "parquet").as_uri(), cur_shard=0, shard_count=size, **options
    )
    return BatchedDataLoader(reader, batch_size=6)


def streaming(order: str, **options: Any) -> Make:
    def make(data: Path, size: int) -> Any:
        given: dict[str, Any] = {"shuffle": True, "num_canonical_nodes": 2, "world": (0, size)}
        if order == "exact":
            given = {"order": ExactOrder(3, True, True, 0, 0, size)}
        dataset = StreamingDataset(local=str(data / "mds"), batch_size=6, **given)
        return StreamingDataLoader(dataset, 6, **options)

    return make


def tf_dataset(data: Path, size: int) -> Any:
    pytest.importorskip("tensorflow")
    return converted("make_tf_dataset")(data, size)


LOADERS: dict[str, Make] = {
    "converter": converted(),
    "two epochs": converted(num_epochs=2),
    "endless": converted(num_epochs=None),
    "exact": streaming("exact"),
    "elastic": streaming("elastic"),
    "drop_last": streaming("exact", drop_last=True),
    "reader": over_reader,
    "workers": streaming("exact", num_workers=1),
    "tf": tf_dataset,
}
#: How many random runs of each kind are in the gate; in `make test-all`, 20 times as many.
IN_GATE = {"converter": 2, "elastic": 2, "reader": 1, "two epochs": 1}


def numbers_of(batch: Any) -> list[int]:
    values = batch["number"] if isinstance(batch, dict) else batch.number
    return [int(number) for number in values]


class Run:
    """A random program in which processes train, and the rows of each step on rank 0."""

    def __init__(self, kind: str, data: Path, seed: int) -> None:
        self.kind, self.data, self.draw = kind, data, random.Random(seed)
        self.steps: list[list[int]] = []
        #: States of the run, with the number of steps before each.
        self.states: list[tuple[int, Any]] = []
        self.acts: list[Any] = []
        self.begin()

    def begin(self, state: tuple[int, Any] | None = None) -> None:
        """Begin a process, which may resume from a state in another world."""
        continue_as_another_process()
        lineage._logged.clear()
        self.loader = LOADERS[self.kind](self.data, self.draw.choice([1, 1, 2]))
        self.is_fresh = True
        if state is not None:
            self.load(state)
        self.look()
        self.log()

    def log(self) -> None:
        try:
            lineage.log_state(self.loader)
        except InvalidArgumentError as error:
            if "pass step=" not in str(error):
                raise
            self.acts.append("with step=")
            lineage.log_state(self.loader, step=len(self.steps))

    def load(self, state: tuple[int, Any]) -> None:
        step, saved = state
        for skipped in (self.draw.choice([0, 0, 2]), 0):
            try:
                self.loader.load_state_dict(saved, skip_batches=skipped)
            except InvalidArgumentError:
                continue  # fewer are left
            break
        self.acts.append(("load", step, skipped))
        del self.steps[step:]
        self.states = [one for one in self.states if one[0] <= step]
        self.is_fresh = True

    def look(self) -> None:
        if self.is_fresh and self.draw.random() < 0.4:
            self.acts.append("peek")
            next(iter(self.loader))
            self.is_fresh = False

    def train(self) -> None:
        """Iterate over some batches, or all; save a state within the loop, and perhaps after it."""
        count = self.draw.choice([None, None, *range(2, 9)])
        count = self.draw.randint(2, 30) if count is None and self.kind == "endless" else count
        self.acts.append(("train", count))
        batches = iter(self.loader)
        at = self.draw.randint(1, 8)
        for number, batch in enumerate(islice(batches, count), 1):
            self.steps.append(numbers_of(batch))
            if number == at:
                self.states.append((len(self.steps), self.loader.state_dict()))
            if number == at and self.draw.random() < 0.2:
                self.acts.append(("log within the loop", number))
                self.log()
        self.is_fresh = False
        if self.draw.random() < 0.3:
            del batches
            self.states.append((len(self.steps), self.loader.state_dict()))

    def set_epoch(self) -> None:
        if hasattr(self.loader, "set_epoch") and not self.is_fresh:
            epoch = self.draw.randint(0, 6)
            self.acts.append(("set epoch", epoch))
            self.loader.set_epoch(epoch)
            self.is_fresh = True

    def act(self) -> None:
        act = self.draw.choice(["train", "train", "train", "set", "load", "begin", "log", "given"])
        if act == "train":
            self.train()
        elif act == "set":
            self.set_epoch()
        elif act == "load" and self.states:
            self.load(self.draw.choice(self.states))
        elif act == "begin" and self.states:
            self.acts.append("process")
            self.begin(self.draw.choice(self.states))
        elif act == "log":
            self.acts.append("log")
            self.log()
        elif act == "given":
            self.acts.append("log with its step")
            lineage.log_state(self.loader, step=len(self.steps))
        self.look()

    def check(self, run: str) -> None:
        trace = lineage.load_trace(run)
        for step, rows in enumerate(self.steps):
            assert sorted(trace.rows(step).tolist()) == sorted(rows), (self.kind, step, self.acts)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=() if seed < IN_GATE.get(kind, 0) else pytest.mark.long)
        for kind in LOADERS
        for seed in range(20)
    ],
)
def test_steps_of_a_random_run_are_those_that_its_loops_used(
    kind: str, seed: int, data: Path, run: str
) -> None:
    program = Run(kind, data, seed)
    for _ in range(8):
        program.act()
    program.train()
    program.check(run)


def trained(loader: Any, batches: int | None = None) -> list[list[int]]:
    """Return the numbers of some batches of a loop (None: of all), which is then left."""
    iterator = iter(loader)
    return [numbers_of(batch) for batch in islice(iterator, batches)]


def logged(run: str, name: str = "training") -> list[tuple[int, int, int]]:
    """Return the step, the epoch and the sample of each state of a run."""
    found = lineage.LoggedStates(lineage.Run(run, mlflow.MlflowClient()), name).found
    return [(one.step, one.state["epoch"], one.state["sample_in_epoch"]) for one in found]


def check(run: str, steps: list[list[int]], name: str | None = None) -> Any:
    trace = lineage.load_trace(run, name)
    assert [trace.rows(step).tolist() for step in range(len(steps))] == steps
    return trace


@pytest.mark.parametrize("kind", ["converter", "elastic", "reader", "tf"])
def test_one_call_is_enough_for_loops_that_are_left_early(kind: str, data: Path, run: str) -> None:
    loader = LOADERS[kind](data, 1)
    next(iter(loader))
    lineage.log_state(loader)
    next(iter(LOADERS[kind](data, 1)))  # another loader changes nothing
    steps = [step for batches in (8, None, 5, None) for step in trained(loader, batches)]
    assert len(steps) == 8 + 20 + 5 + 20
    check(run, steps)
    assert len(logged(run)) == 3  # whole passes follow one another


def test_batches_that_were_skipped_have_no_step(data: Path, run: str) -> None:
    loader = LOADERS["converter"](data, 1)
    lineage.log_state(loader)
    batches = iter(loader)
    steps = [numbers_of(next(batches)) for _ in range(8)]
    state = loader.state_dict()
    left_out = numbers_of(next(batches))
    loader.load_state_dict(state, skip_batches=5)
    steps += trained(loader)
    trace = check(run, steps)
    assert len(steps) == 8 + 7
    assert not len(trace.find(left_out))


@pytest.mark.parametrize("calls", ["no more calls", "log_state", "log_state with step="])
def test_epoch_that_was_set_begins_at_the_next_step(calls: str, data: Path, run: str) -> None:
    loader = LOADERS["converter"](data, 1)
    lineage.log_state(loader)
    steps = trained(loader, 7)
    loader.set_epoch(5)
    next(iter(loader))  # a peek is no step
    if calls != "no more calls":
        lineage.log_state(loader, step=7 if "step" in calls[-5:] else None)
    steps += trained(loader)
    check(run, steps)
    assert logged(run) == [(0, 0, 0), (7, 5, 0)]


def test_explicit_calls_replace_the_entry_of_their_step_and_data_are_logged_once(
    data: Path, run: str
) -> None:
    loader = LOADERS["converter"](data, 1)
    steps: list[list[int]] = []
    for _ in range(3):
        for _ in range(2):
            lineage.log_state(loader, step=len(steps))
        steps += trained(loader, 4)
    check(run, steps)
    assert logged(run) == [(0, 0, 0), (4, 1, 0), (8, 2, 0)]
    folder = Path(mlflow.artifacts.download_artifacts(f"runs:/{run}/mdstorm/training"))
    assert sorted(f"{path.relative_to(folder)}" for path in folder.rglob("*.json")) == [
        "data/000000.json",
        *(f"states/{number:06}.json" for number in range(3)),
    ]


def test_iteration_that_is_held_continues_at_its_position(data: Path, run: str) -> None:
    loader = LOADERS["converter"](data, 1)
    batches = iter(loader)
    next(batches)
    lineage.log_state(loader)
    steps = [numbers_of(next(batches)) for _ in range(3)]
    lineage.log_state(loader)
    steps += [numbers_of(batch) for batch in batches]
    check(run, steps)
    assert logged(run) == [(0, 0, 6), (3, 0, 24)]


def test_iterations_that_alternate_are_followed(data: Path, run: str) -> None:
    loader = LOADERS["converter"](data, 1)
    lineage.log_state(loader)
    first, steps = iter(loader), []
    for batches, count in ((first, 3), (iter(loader), 2), (first, 4)):
        steps += [numbers_of(batch) for batch in islice(batches, count)]
    steps += trained(loader, 2)
    check(run, steps)


def test_new_loader_of_each_epoch_continues_the_steps(data: Path, run: str) -> None:
    make = converted(seed=None, shard_count=2)
    steps = []
    for batches in (None, 4, None):
        loader = make(data, 2)
        lineage.log_state(loader)
        steps += trained(loader, batches)
    assert len(steps) == 10 + 4 + 10
    check(run, steps)


def test_each_loader_of_a_run_is_followed(data: Path, run: str) -> None:
    training, validation = LOADERS["converter"](data, 1), LOADERS["exact"](data, 1)
    lineage.log_state(training)
    lineage.log_state(validation, "validation")
    lineage.log_state(training, name="again")
    steps: dict[str, list[list[int]]] = {"training": [], "validation": []}
    for _ in range(2):
        steps["training"] += trained(training, 5)
        steps["validation"] += trained(validation, 3)
    for name, loader in (("training", "training"), ("again", "training"), ("validation",) * 2):
        check(run, steps[loader], name)


def test_loaders_elsewhere_and_after_the_run_append_nothing(data: Path, run: str) -> None:
    loader = LOADERS["exact"](data, 1)
    lineage.log_state(loader)
    steps = trained(loader, 5)
    for other in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):  # noqa: S301
        trained(other, 3), trained(other, 2)
    assert logged(run) == [(0, 0, 0)]
    mlflow.end_run()
    trained(loader, 3)
    loader.set_epoch(9)
    trained(loader, 3)
    assert logged(run) == [(0, 0, 0)]
    with mlflow.start_run(run):
        lineage.log_state(loader)
        steps += trained(loader, 4)
    check(run, steps)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_process_appends_nothing(data: Path, run: str) -> None:
    loader = LOADERS["exact"](data, 1)
    lineage.log_state(loader)
    trained(loader, 5)
    if (child := os.fork()) == 0:
        trained(loader, 3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert logged(run) == [(0, 0, 0)]


def test_store_that_refuses_is_one_warning_that_names_the_step(
    data: Path, run: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loader = LOADERS["converter"](data, 1)
    lineage.log_state(loader)

    def refuse(*given: Any) -> None:
        raise mlflow.exceptions.MlflowException("quota")

    with monkeypatch.context() as patched:
        patched.setattr(mlflow.MlflowClient, "log_dict", refuse)
        steps = [*trained(loader, 3), *trained(loader, 3), *trained(loader, 2)]
    (warning,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert all(part in warning.message for part in (run, "after step 0", "quota", "step=…"))
    lineage.log_state(loader, step=len(steps))
    begun = len(steps)
    steps += trained(loader, 4)
    trace = lineage.load_trace(run)
    assert [trace.rows(step).tolist() for step in range(begun, begun + 4)] == steps[begun:]


def test_rows_after_a_state_that_the_run_does_not_know_are_unknown(
    data: Path, run: str, caplog: pytest.LogCaptureFixture
) -> None:
    other, loader = LOADERS["converter"](data, 2), LOADERS["converter"](data, 1)
    batches = iter(other)
    next(batches), next(batches)
    lineage.log_state(loader)
    steps = trained(loader, 3)
    loader.load_state_dict(other.state_dict())
    trained(loader, 4)
    (warning,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert "from step 3 on" in warning.message
    trace = check(run, steps)
    with pytest.raises(InvalidArgumentError, match=r"does not show which rows step 3 has, because"):
        trace.rows(3)
    with pytest.raises(InvalidArgumentError, match=r"pass step="):
        lineage.log_state(loader)
    lineage.log_state(loader, step=7)
    assert lineage.load_trace(run).rows(range(7, 9)).tolist() == [*chain(*trained(loader, 2))]


def resumed(make: Make, data: Path, size: int, state: Any) -> Any:
    """Return the loader of a process that resumes."""
    continue_as_another_process()
    lineage._logged.clear()
    loader = make(data, size)
    loader.load_state_dict(state)
    return loader


def saved_after(loader: Any, batches: int) -> Any:
    iterator = iter(loader)
    for _ in islice(iterator, batches):
        pass
    return loader.state_dict()


def test_state_of_an_older_branch_resumes_at_its_step(data: Path, run: str) -> None:
    make = LOADERS["converter"]
    loader = make(data, 1)
    lineage.log_state(loader)
    batches = iter(loader)
    states = [(next(batches), loader.state_dict())[1] for _ in range(16)]
    for size in (2, 1):
        loader = resumed(make, data, size, states[3])
        lineage.log_state(loader)
        later = saved_after(loader, 4)
    for state, step in ((states[11], 12), (later, 8)):
        loader = resumed(make, data, 1, state)
        lineage.log_state(loader)
        assert logged(run)[-1][0] == step


def test_state_after_loops_that_were_left_early_resumes_at_its_step(data: Path, run: str) -> None:
    loader = LOADERS["converter"](data, 1)
    lineage.log_state(loader)
    trained(loader, 8)  # had it gone on, it would have come to the state, too
    state = saved_after(loader, 3)
    loader = resumed(LOADERS["converter"], data, 1, state)
    lineage.log_state(loader)
    assert logged(run)[-1][0] == 8 + 3


def test_state_that_several_branches_reach_needs_the_step(data: Path, run: str) -> None:
    make = LOADERS["converter"]
    loader = make(data, 1)
    lineage.log_state(loader)
    state = saved_after(loader, 4)
    loader = resumed(make, data, 2, state)
    lineage.log_state(loader)
    state = saved_after(loader, 4)
    loader = resumed(make, data, 1, state)
    lineage.log_state(loader)
    trained(loader)
    state = saved_after(loader, 3)  # in the next epoch, as the first process may have been
    loader.load_state_dict(state)
    lineage.log_state(loader)  # the process that knows
    step = 4 + 4 + 8 + 3
    assert logged(run)[-1][0] == step
    loader = resumed(make, data, 1, state)
    with pytest.raises(InvalidArgumentError, match=rf"steps \[{step}, 23\] .* pass step="):
        lineage.log_state(loader)
    lineage.log_state(loader, step=step)
    check(run, [])


def test_run_of_the_version_before_is_continued(data: Path, run: str) -> None:
    loader = LOADERS["converter"](data, 1)
    lineage.log_state(loader)
    steps, state = trained(loader, 6), saved_after(LOADERS["converter"](data, 1), 6)
    found = lineage.LoggedStates(lineage.Run(run, mlflow.MlflowClient()), "training").found
    with mlflow.start_run(nested=True) as earlier:
        values = [{**one._asdict(), "data": one.data.to_json()} for one in found]
        for one in values:
            del one["follows"], one["unknown"]
        mlflow.log_dict({"states": values}, "mdstorm/training/states.json")
        check(earlier.info.run_id, steps)
        loader = resumed(LOADERS["converter"], data, 1, state)
        lineage.log_state(loader)
        steps += [*trained(loader, 3), *trained(loader, 3)]
        check(earlier.info.run_id, steps)


def test_rows_after_tensorflow_itself_left_an_iteration_early_are_unknown(
    data: Path, run: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pytest.importorskip("mdstorm_backend.loaders.tf.tf_pipeline")
    monkeypatch.setattr(pipeline, "BLOCK_ROWS", 30)
    dataset = tf_dataset(data, 1)
    lineage.log_state(dataset)
    mapped = dataset.map(lambda row: row)
    steps = [*trained(mapped), *trained(mapped)]  # to the end
    lineage.log_state(dataset)
    check(run, steps)
    trained(mapped, 3), trained(mapped)
    assert "TensorFlow itself took batches" in "".join(caplog.messages)
    trace = check(run, steps)
    with pytest.raises(InvalidArgumentError, match="does not show which rows step"):
        trace.rows(len(steps) + 5)
