"""Loaders prepared by Accelerate: which loaders it may split, and which rows each rank reads."""

from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.kit.frameworks import import_framework
from tests.kit.loaders import Same, rows, torch_loader
from tests.slow.trainers.conftest import EVEN_ROWS, ROWS
from tests.slow.trainers.launching import Start, each_once, fork, launch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders import agreement

#: Parts of accelerate_evaluation.py, each one pass over a prepared loader.
PARTS = (
    *("none", "one", "batch-and-one", "auto", "twice", "second-epoch", "pickled"),
    *("dispatched", "not-dispatched", "split", "stateful"),
)


@pytest.mark.parametrize(
    ("start", "processes"),
    [
        (fork, 2),
        pytest.param(launch, 1, marks=pytest.mark.long),
        pytest.param(launch, 2, marks=pytest.mark.long),
    ],
)
def test_gather_for_metrics_gives_each_row_once(
    url: str, even_url: str, start: Start, processes: int, tmp_path: Path
) -> None:
    run = start("accelerate_evaluation.py", url, even_url, at=tmp_path, processes=processes)

    for part in PARTS:
        expected = each_once(EVEN_ROWS if part == "none" else ROWS)
        assert run.recorded(f"all-{part}").rows == expected, part
        shapes = {tuple(map(len, rank)) for rank in run.recorded(part).batches}
        assert len(shapes) == 1, part
    for rank in run.recorded("all-on-the-way").batches:
        assert sorted(row for batch in rank for row in batch) == list(range(ROWS))
    # Explicit shares are not split further.
    assert run.recorded("explicit").rows == each_once(ROWS)
    assert set(run.recorded("all-in-each").rows.values()) == {processes}
    # Without padding, each row is also read once.
    assert run.recorded("uneven").rows == each_once(ROWS)
    assert len(set(run.recorded("uneven").steps)) == 1
    # MosaicML's order repeats rows if the ranks cannot share them evenly.
    elastic = run.recorded("all-elastic").rows
    assert set(elastic) == set(range(ROWS))
    assert elastic.total() < ROWS + processes


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
def test_training_resumes_from_states_or_by_skipping_batches(
    even_url: str, processes: int, tmp_path: Path
) -> None:
    run = fork("accelerate_training.py", even_url, at=tmp_path, processes=processes)

    batches = EVEN_ROWS // 63 // processes
    synced = [[int(n % 3 == 0 or n == batches)] for n in range(1, batches + 1)]
    for part in ("state-exact", "skip-exact", "state-elastic", "skip-elastic"):
        for epoch in (0, 1):
            assert run.recorded(f"{part}-epoch{epoch}").rows == each_once(EVEN_ROWS), part
            ranks = run.recorded(f"synced-{part}-epoch{epoch}").batches
            assert ranks == [synced] * processes, part
    for part in ("skip-exact", "skip-elastic"):
        last, before = (run.recorded(f"{part}-epoch{epoch}") for epoch in (2, 1))
        assert last.rows == each_once(EVEN_ROWS)
        assert last.batches != before.batches


@pytest.mark.long
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_state_resumes_with_different_world_size(
    url: str, before: int, after: int, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"

    for processes, action in ((before, "stop"), (after, "go-on")):
        run = fork("accelerate_state.py", url, checkpoint, action, at=tmp_path, processes=processes)

    assert run.recorded().rows == each_once(ROWS)


@pytest.mark.long
def test_each_row_is_read_once_if_some_ranks_have_no_rows(
    few_url: str, url: str, tmp_path: Path
) -> None:
    run = fork("accelerate_edges.py", few_url, url, at=tmp_path, processes=2)

    for part in ("few", "same", "other", "next-same", "next-other"):
        for rank in run.recorded(part).batches:
            assert sorted(row for batch in rank for row in batch) == list(range(5)), part
    for part in ("loaded-by-loader", "loaded-by-dataset"):
        assert run.recorded(part).rows == each_once(5), part


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
def test_random_programs_read_each_row_once(url: str, processes: int, tmp_path: Path) -> None:
    fork("random_accelerate.py", url, 0, 100, at=tmp_path, processes=processes)


class Shard(IterableDataset[Any]):
    """Yields every other sample of a dataset."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Any:
        for number, sample in enumerate(self.dataset):
            if number % 2 == 0:
                yield sample


class ByNumber(Dataset[Any]):
    """Returns any sample by its number, including samples outside the dataset's share."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, number: int) -> Any:
        return self.dataset[number]


def prepare(loader: DataLoader[Any], processes: int = 2) -> Any:
    """Prepare a loader with Accelerate's own function, for the first of several processes."""
    data_loader = import_framework("accelerate.data_loader")
    return data_loader.prepare_data_loader(loader, num_processes=processes, process_index=0)


def share(url: str) -> StreamingDataset:
    return StreamingDataset(local=url, batch_size=4, order=ExactOrder(rank=1, world_size=2))


def test_prepared_share_is_not_split_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for dataset in (
        StreamingDataset(local=url, batch_size=4),
        share(url),
        StreamingDataLoader(share(url), 4).dataset,
        Shard(share(url)),
    ):
        with pytest.raises(InvalidArgumentError, match="among 2 ranks, so rows would"):
            prepare(DataLoader(dataset))


def test_loader_that_every_process_reads_in_full_can_be_split(url: str) -> None:
    whole = StreamingDataset(local=url, order=ExactOrder())
    assert rows(prepare(DataLoader(Shard(whole)))) == list(range(0, ROWS, 4))
    assert rows(prepare(DataLoader(ByNumber(share(url))))) == list(range(0, ROWS, 2))


def test_loaders_over_other_datasets_are_split_by_accelerate(url: str) -> None:
    assert len(list(prepare(DataLoader([1] * 8)))) == 4  # type: ignore[arg-type]


def test_prepare_for_one_process_does_not_split_the_share(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "shown", set())  # a process warns once
    with pytest.warns(UserWarning, match="some ranks read 504 samples .* and others one more"):
        assert len(rows(prepare(DataLoader(share(url)), processes=1))) == ROWS // 2


def test_preparing_does_not_change_the_original_loader(url: str) -> None:
    loader = StreamingDataLoader(StreamingDataset(local=url, order=ExactOrder()), 100)
    prepared = prepare(loader, processes=1)
    assert type(loader) is StreamingDataLoader
    assert rows(prepared) == rows(loader) == list(range(ROWS))


@pytest.mark.parametrize("part", ["loader", "dataset"])
def test_state_loaded_before_preparing_resumes_with_remaining_rows(url: str, part: str) -> None:
    plain, loaded = (
        StreamingDataLoader(StreamingDataset(local=url, order=ExactOrder()), 100) for _ in range(2)
    )
    assert rows(islice(plain, 2)) == list(range(200))
    (loaded if part == "loader" else loaded.dataset).load_state_dict(plain.state_dict())
    assert rows(prepare(loaded)) == list(range(200, ROWS))


def test_prepared_loader_begins_with_next_epoch_of_original(url: str) -> None:
    def loader(epoch: int) -> StreamingDataLoader:
        order = ExactOrder(seed=1, shuffle_rows=True)
        loader = StreamingDataLoader(StreamingDataset(local=url, order=order), 100)
        loader.set_epoch(epoch)
        return loader

    expected = rows(loader(3))
    assert rows(prepare(loader(3))) == expected
    after_a_pass, after_a_break = loader(2), loader(2)
    rows(after_a_pass)
    rows(islice(after_a_break, 5))
    assert rows(prepare(after_a_pass)) == rows(prepare(after_a_break)) == expected


@pytest.mark.parametrize("fails_at", [0, 1, 5, 10])
def test_state_after_error_in_batch_map_of_prepared_loader_resumes_with_failed_batch(
    url: str, fails_at: int
) -> None:
    def failing(batch: Any) -> Any:
        if batch["number"][0] == fails_at * 100:
            raise ZeroDivisionError
        return batch

    def loader() -> StreamingDataLoader:
        return StreamingDataLoader(StreamingDataset(local=url, order=ExactOrder()), 100)

    prepared, seen = prepare(loader(), processes=1), []
    prepared.dataset.batch_map = failing
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        for batch in prepared:
            seen += rows([batch])
    assert seen == list(range(fails_at * 100))
    resumed = loader()
    resumed.load_state_dict(prepared.state_dict())
    # What a loop has before its second batch is a peek, whose batch comes again.
    used = seen if fails_at > 1 else []
    assert used + rows(resumed) == list(range(ROWS))


@pytest.mark.parametrize("transform", [None, Same()], ids=["known end", "unknown end"])
@pytest.mark.parametrize("left", [1, 2, 3])
def test_peek_near_end_of_prepared_loader_loses_no_rows(
    url: str, left: int, transform: Any
) -> None:
    def loader() -> Any:
        return torch_loader(open_dataset(url), batch_size=100, transform=transform)

    before = prepare(loader(), processes=1)
    taken = rows(islice(before, 11 - left))
    after = prepare(loader(), processes=1)
    after.load_state_dict(before.state_dict())
    peeked = rows(islice(after, 1))
    rest = rows(after)
    assert rest[: len(peeked)] == peeked
    assert taken + rest == list(range(ROWS))
    assert rows(after) == list(range(ROWS))


def with_one_batch_left(url: str) -> tuple[Any, dict[str, Any]]:
    """Return a prepared loader that resumes before its last batch, and the state it has loaded."""
    before, after = (
        prepare(StreamingDataLoader(StreamingDataset(local=url, order=ExactOrder()), 100), 1)
        for _ in range(2)
    )
    rows(islice(before, 10))
    state = before.state_dict()
    after.load_state_dict(state)
    return after, state


def test_batch_peeked_at_after_load_is_kept_even_if_an_earlier_pass_ends(url: str) -> None:
    loader, state = with_one_batch_left(url)
    first = iter(loader)
    last = rows(islice(first, 1))
    loader.load_state_dict(state)
    peek = iter(loader)
    assert rows(islice(peek, 1)) == last
    assert rows(first) == []
    peek.close()
    assert rows(loader) == last
    assert rows(loader) == list(range(ROWS))


def test_copy_of_prepared_dataset_begins_with_the_batch_fetched_ahead(url: str) -> None:
    dataset = StreamingDataset(local=url, order=ExactOrder())
    prepared = prepare(StreamingDataLoader(dataset, 100), processes=1)
    batches = iter(prepared)
    rows(islice(batches, 3))
    assert rows(deepcopy(prepared.dataset)) == list(range(300, ROWS))
    assert rows(batches) == list(range(300, ROWS))


@pytest.mark.parametrize("batch_size", [ROWS, ROWS - 1])
def test_passes_of_one_or_two_batches_advance_epoch_of_prepared_loader(
    url: str, batch_size: int
) -> None:
    order = ExactOrder(seed=1, shuffle_rows=True)
    loader = StreamingDataLoader(StreamingDataset(local=url, order=order), batch_size)
    prepared = prepare(loader, processes=1)
    assert len({tuple(rows(prepared)) for _ in range(4)}) == 4


def test_ranks_share_one_order_in_prepared_loader_without_seed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, seen = open_dataset(url), []
    converter = SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))
    monkeypatch.setenv("WORLD_SIZE", "2")
    states = []
    for rank in range(2):  # before `prepare`, each rank's loader reads all rows in its own order
        monkeypatch.setenv("RANK", f"{rank}")
        with converter.make_torch_dataloader(
            batch_size=100, num_epochs=1, shuffle_rows=True
        ) as loader:
            assert len(loader) == -(-ROWS // 100)
            prepared = prepare(loader)
            seen += rows(islice(prepared, 2))
            states.append(prepared.state_dict())
            resumed = prepare(loader)
            resumed.load_state_dict(states[0])
            seen += rows(resumed)
    assert states[0]["shuffle_seed"] == states[1]["shuffle_seed"]
    assert set(seen) == set(range(ROWS))


def test_length_of_loader_that_skips_batches_is_remaining_batch_count(url: str) -> None:
    dataset = StreamingDataset(local=url, order=ExactOrder())
    prepared = prepare(StreamingDataLoader(dataset, 100), processes=1)
    rest = import_framework("accelerate").skip_first_batches(prepared, 9)
    assert len(rest) == len(prepared) - 9 == 2
    assert rows(rest) == list(range(900, ROWS))
    assert rows(prepared) == list(range(ROWS))


@pytest.mark.parametrize("skipped", [1, 5, 10])
def test_peek_at_loader_that_skips_batches_keeps_the_epoch(url: str, skipped: int) -> None:
    order = ExactOrder(seed=1, shuffle_rows=True)
    whole, loader = (
        StreamingDataLoader(StreamingDataset(local=url, order=order), 100) for _ in range(2)
    )
    epochs = [rows(whole) for _ in range(2)]
    prepared = prepare(loader, processes=1)
    rest = import_framework("accelerate").skip_first_batches(prepared, skipped)
    next(iter(rest))
    assert rows(rest) == epochs[0][skipped * 100 :]
    assert rows(prepared) == epochs[1]
