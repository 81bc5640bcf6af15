"""Loaders yield MosaicML Streaming's batches, and each library loads the other's states."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.kit.small_datasets import write_dataset

from mdstorm_backend import Stream, StreamingDataLoader, StreamingDataset


@dataclass(frozen=True)
class Run:
    """A run with one loader on each rank."""

    dataset: Mapping[str, Any]
    batch_size: int = 4
    num_workers: int = 0
    drop_last: bool = False
    world: tuple[int, int] = (1, 1)
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"a": {}})
    passes: int = 2
    batches: int | None = None
    state: Mapping[str, Any] | None = None

    def to_json(self, data: Path) -> dict[str, Any]:
        sources, loader = self._arguments(data)
        streams = sources.pop("streams", None)
        said = {name: getattr(self, name) for name in ("world", "passes", "batches", "state")}
        dataset = {**sources, **self.dataset, "batch_size": self.batch_size}
        return {"dataset": dataset, "streams": streams, "loader": loader, **said}

    def _arguments(self, data: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        loader = {name: getattr(self, name) for name in ("batch_size", "num_workers", "drop_last")}
        if self.streams == {"a": {}}:
            return {"local": str(data / "a")}, loader
        streams = [{"local": str(data / name), **kw} for name, kw in self.streams.items()]
        return {"streams": streams}, loader

    def ours(self, data: Path) -> list[dict[str, Any]]:
        """Return the batches, state and length of mdstorm's loader on each rank."""
        nodes, ranks = self.world
        results = []
        for rank in range(nodes * ranks):
            world = {"RANK": rank, "WORLD_SIZE": nodes * ranks, "LOCAL_WORLD_SIZE": ranks}
            with pytest.MonkeyPatch.context() as environment:
                for name, value in world.items():
                    environment.setenv(name, str(value))
                results.append(self._rank(data))
        return results

    def _rank(self, data: Path) -> dict[str, Any]:
        sources, options = self._arguments(data)
        if "streams" in sources:
            sources["streams"] = [Stream(**stream) for stream in sources["streams"]]
        dataset = StreamingDataset(**sources, **self.dataset, batch_size=self.batch_size)
        loader = StreamingDataLoader(dataset, **options)
        if self.state is not None:
            loader.load_state_dict(dict(self.state))
        passes = [[b["number"].tolist() for b in loader] for _ in range(self.passes - 1)]
        iterator = iter(loader)
        passes.append([b["number"].tolist() for b in islice(iterator, self.batches)])
        state = loader.state_dict()
        iterator.close()
        return {"passes": passes, "state": state, "len": len(loader)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three datasets with coprime sizes, in shards of several sizes."""
    directory = tmp_path_factory.mktemp("data")
    for start, name, rows in ((0, "a", 90), (1000, "b", 41), (2000, "c", 64)):
        write_dataset(
            directory / name,
            {"number": range(start, start + rows)},
            {"number": "long"},
            shard_size=2_000,
            tasks=4,
        )
    return directory


def five_keys(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != "mdstorm"}


SHUFFLED = {"shuffle": True, "shuffle_seed": 7}
SHARES = {"a": 0.5, "b": 0.2, "c": 0.3}
WEIGHTED: dict[str, Any] = {name: {"proportion": share} for name, share in SHARES.items()}
ALL: dict[str, Any] = {name: {} for name in "abc"}

RUNS = [
    Run({}),
    Run(SHUFFLED),
    Run({**SHUFFLED, "shuffle_algo": "py1br", "shuffle_block_size": 20}, batch_size=7),
    Run({**SHUFFLED, "shuffle_algo": "py1s"}, num_workers=2),
    Run({**SHUFFLED, "shuffle_algo": "py2s", "num_canonical_nodes": 4}, world=(2, 1)),
    Run({**SHUFFLED, "shuffle_algo": "naive", "partition_algo": "orig"}, world=(1, 3)),
    Run({**SHUFFLED, "epoch_size": 50, "sampling_granularity": 3}, num_workers=2, drop_last=True),
    Run({**SHUFFLED, "epoch_size": "0.2k", "sampling_method": "fixed"}, world=(2, 2)),
    Run({**SHUFFLED, "replication": 2}, world=(2, 2)),
    Run({**SHUFFLED, "num_canonical_nodes": 4}, streams=WEIGHTED, num_workers=3),
    Run({"epoch_size": 100}, streams=ALL),
    Run(SHUFFLED, streams={"a": {"repeat": 0.5}, "b": {"choose": 60}, "c": {}}, world=(1, 2)),
    Run({**SHUFFLED, "batching_method": "stratified"}, streams=WEIGHTED, batch_size=10),
    Run({**SHUFFLED, "batching_method": "per_stream"}, streams=ALL, num_workers=2),
    Run({**SHUFFLED, "batching_method": "device_per_stream"}, streams=ALL, world=(1, 2)),
    Run({}, num_workers=2, drop_last=True, batch_size=8, world=(1, 2)),
]


#: Interrupted runs, and the settings with which they resume.
INTERRUPTED: list[tuple[Run, dict[str, Any]]] = [
    (Run({}, batches=4), {"num_workers": 2}),
    (Run(SHUFFLED, batches=3, num_workers=2), {"batch_size": 2, "world": (1, 2)}),
    (
        Run({**SHUFFLED, "num_canonical_nodes": 4}, batches=2, world=(2, 2), passes=1),
        {"batch_size": 8, "world": (1, 2), "num_workers": 1},
    ),
    (
        Run({**SHUFFLED, "num_canonical_nodes": 2}, batches=2, world=(2, 1), batch_size=6),
        {"batch_size": 4, "world": (3, 1)},
    ),
    (
        Run({**SHUFFLED, "batching_method": "stratified"}, 10, streams=WEIGHTED, batches=5),
        {"batch_size": 5, "world": (1, 2)},
    ),
    (Run({**SHUFFLED, "replication": 2}, world=(1, 2), batches=5), {"num_workers": 2}),
]


@dataclass(frozen=True)
class Theirs:
    """MosaicML Streaming's results, run by run and rank by rank."""

    whole: list[Any]
    interrupted: list[Any]
    continued: list[Any]


@pytest.fixture(scope="module")
def theirs(run_in_mosaic: Any, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Theirs:
    """MosaicML Streaming's results, all from one process, because starting it takes seconds."""
    interrupted = [run for run, _ in INTERRUPTED]
    # These runs load mdstorm's states, which contain an extra key.
    continued = [rest(run, elsewhere, run.ours(data)[0]["state"]) for run, elsewhere in INTERRUPTED]
    file = tmp_path_factory.mktemp("runs") / "runs.json"
    runs = [*RUNS, *interrupted, *continued]
    file.write_text(json.dumps([run.to_json(data) for run in runs]))
    results = iter(run_in_mosaic("stream.py", file))
    return Theirs(*(list(islice(results, len(part))) for part in (RUNS, interrupted, continued)))


def rest(run: Run, elsewhere: Mapping[str, Any], state: Mapping[str, Any]) -> Run:
    """Return a run that continues an interrupted run and reads one more pass."""
    return Run(**{**vars(run), **elsewhere, "batches": None, "passes": 2, "state": state})


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes")
def test_batches_match_mosaicml_streaming(theirs: Theirs, data: Path) -> None:
    for run, expected in zip(RUNS, theirs.whole, strict=True):
        found = run.ours(data)
        for ours, their in zip(found, expected, strict=True):
            assert ours["passes"] == their["passes"], run
            assert ours["len"] == their["len"], run
            assert five_keys(ours["state"]) == their["state"], run


@pytest.mark.parametrize("number", range(len(INTERRUPTED)))
def test_state_equals_mosaicml_streaming_state_and_resumes_with_the_same_batches(
    theirs: Theirs, data: Path, number: int
) -> None:
    run, elsewhere = INTERRUPTED[number]
    (state, *_) = (rank["state"] for rank in theirs.interrupted[number])
    assert five_keys(run.ours(data)[0]["state"]) == state
    found = rest(run, elsewhere, state).ours(data)
    for ours, their in zip(found, theirs.continued[number], strict=True):
        assert ours["passes"] == their["passes"]


def test_states_fit_into_mosaicml_streaming_shared_memory(data: Path) -> None:
    streams = [Stream(local=str(data / name)) for name in ("a", "b", "c")]
    dataset = StreamingDataset(streams=streams, batch_size=4, **SHUFFLED)
    state = StreamingDataLoader(dataset, batch_size=4).state_dict()
    assert len(json.dumps(state, sort_keys=True)) < 1024
