"""Datasets and loaders in elastic order have MosaicML Streaming's ids, batches and states."""

import json
import warnings
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.loaders import column, rows, taken
from tests.kit.small_datasets import write_numbers
from tests.unit.mds_backend.elastic.examples import patient
from torch.utils.data import DataLoader

from mdstorm_backend import Dataset, ElasticOrder, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.order import World

TESTS = Path(__file__).parents[3]
GOLDEN = json.loads((TESTS / "unit/mds_backend/elastic/golden_orders.json").read_text())
MULTI_SHARD = str(TESTS / "contract/interop/golden/multi_shard")
golden_runs = pytest.mark.parametrize(
    "run", GOLDEN["end_to_end_on_multi_shard"], ids=lambda run: str(run["args"])
)

ROWS, SHARDS = 50, 5
SHUFFLED = {"shuffle": True, "shuffle_seed": 3}


def make(
    dataset: Dataset, batch_size: int = 4, *, loader: Any = (), world: Any = (0, 1), **options: Any
) -> StreamingDataLoader:
    """Make a loader for one rank in a world."""
    num_epochs = options.pop("num_epochs", 1)
    share = {"world": World(*world), "follows_world": False}
    order = ElasticOrder(batch_size=batch_size, **{**SHUFFLED, **share, **options})
    source = StreamingDataset(local=dataset.url, order=order, num_epochs=num_epochs)
    return StreamingDataLoader(source, batch_size, **dict(loader))


@golden_runs
def test_epochs_are_the_same_as_in_mosaicml_streaming(run: Any) -> None:
    dataset = StreamingDataset(local=MULTI_SHARD, **run["args"])
    assert len(dataset) == run["len"]
    assert [[sample["i"] for sample in dataset] for _ in range(3)] == run["epochs"]
    loader = StreamingDataLoader(StreamingDataset(local=MULTI_SHARD, **run["args"]), 4)
    epochs = [list(chain(*column(loader, "i"))) for _ in range(3)]
    assert epochs == run["epochs"]


@golden_runs
def test_states_are_the_same_as_in_mosaicml_streaming(run: Any) -> None:
    loader = StreamingDataLoader(StreamingDataset(local=MULTI_SHARD, **run["args"]), 4)
    iterator = iter(loader)
    list(islice(iterator, 4))
    state = loader.state_dict()
    iterator.close()
    expected = run["state_after_4_batches"]
    assert {key: state[key] for key in expected} == expected
    old = {key: value for key, value in expected.items() if key != "initial_physical_nodes"}
    for loaded in (state, expected, old):
        dataset = StreamingDataset(local=MULTI_SHARD, **{**run["args"], "batch_size": 6})
        other = StreamingDataLoader(dataset, 6)
        other.load_state_dict(loaded)
        assert list(chain(*column(other, "i"))) == run["rest_after_resume"]


@pytest.mark.matrix
@golden_runs
@pytest.mark.parametrize(
    "kind", [StreamingDataLoader, pytest.param(DataLoader, marks=pytest.mark.long)]
)
def test_worker_batches_are_the_same_as_in_mosaicml_streaming(run: Any, kind: Any) -> None:
    loader = kind(StreamingDataset(local=MULTI_SHARD, **run["args"]), batch_size=4, num_workers=2)
    assert column(loader, "i") == run["batches_with_2_workers"]


def test_dataset_state_resumes_after_the_given_number_of_samples(numbers: Dataset) -> None:
    dataset = make(numbers, world=(0, 2, 2)).dataset
    samples = iter(dataset)
    list(islice(samples, 4))  # the two ranks have read 8 samples in total
    found = [dataset.state_dict(taken, False) for taken in (7, 8, 9)]
    assert [state["sample_in_epoch"] for state in found] == [7, 8, 9]


@pytest.mark.parametrize(
    "kind", [StreamingDataLoader, pytest.param(DataLoader, marks=pytest.mark.long)]
)
def test_each_pass_reads_the_next_epoch(numbers: Dataset, kind: Any) -> None:
    whole = make(numbers)
    expected = [column(whole) for _ in range(2)]
    for num_workers in (0, 2):
        dataset = StreamingDataset(local=numbers.url, batch_size=4, **SHUFFLED)
        loader = kind(dataset, batch_size=4, num_workers=num_workers)
        for batches in expected:
            torch.manual_seed(0)  # gives workers the same seed in all passes
            assert column(loader) == batches
        assert dataset.next_epoch == 2
        assert dataset.state_dict(8, True)["epoch"] == 1


@pytest.mark.long
def test_spawned_persistent_workers_of_pytorch_read_one_epoch_per_pass(numbers: Dataset) -> None:
    whole = make(numbers)
    expected = [column(whole) for _ in range(3)]
    dataset = StreamingDataset(local=numbers.url, batch_size=4, **SHUFFLED)
    workers: Any = {"persistent_workers": True, "multiprocessing_context": "spawn"}
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=4, num_workers=2, **workers)
    assert [column(loader) for _ in range(3)] == expected
    dataset.load_state_dict(dataset.state_dict(ROWS - 2, True))
    assert rows(loader) == list(chain(*expected[2]))[-2:]
    assert loader._iterator is not None
    loader._iterator._shutdown_workers()  # type: ignore[attr-defined]


def test_batches_do_not_span_epochs(numbers: Dataset) -> None:
    loader = make(numbers, num_epochs=2)
    whole = make(numbers)
    assert column(loader) == column(whole) + column(whole)
    assert len(loader) == 26
    endless = make(numbers, num_epochs=None)
    again = make(numbers)
    assert taken(endless, 30) == (column(again) + column(again) + column(again))[:30]
    with pytest.raises(TypeError, match="never ends"):
        len(endless)


worlds = st.sampled_from([(0, 1), (0, 2, 2), (0, 2), (0, 4, 2), (0, 8)])


@settings(patient, max_examples=12)
@given(worlds, worlds, *[st.integers(1, 5)] * 2, st.sampled_from([1, 4]))
def test_state_at_the_end_of_an_epoch_resumes_with_the_next_epoch_in_any_world(
    numbers: Dataset,
    there: tuple[int, ...],
    here: tuple[int, ...],
    batch_there: int,
    batch_here: int,
    canonical: int,
) -> None:
    """Also tests worlds whose last batch contains padding."""
    options = {"num_canonical_nodes": canonical, "epoch_size": 43}
    first = make(numbers, batch_there, world=there, **options)
    column(first)
    of_loader, source = first.state_dict(), first.dataset
    for state in (of_loader, source.state_dict(of_loader["sample_in_epoch"], True)):
        reference, second = (make(numbers, batch_here, world=here, **options) for _ in range(2))
        second.load_state_dict(state)
        assert second.state_dict()["sample_in_epoch"] == state["sample_in_epoch"]
        column(reference)
        assert column(second) == column(reference)


@pytest.mark.parametrize("done", [251, 256])
def test_state_after_more_batches_than_len_resumes_with_the_rest_or_the_next_epoch(
    tmp_path: Path, done: int
) -> None:
    """If canonical nodes do not divide the samples evenly, an epoch is longer than `len`.

    MosaicML Streaming cannot resume from such a state.
    """
    dataset = write_numbers(tmp_path, 1000, tasks=2)
    options = {"num_canonical_nodes": 64, "shuffle": False}
    reference = make(dataset, **options)
    first = make(dataset, **options)
    assert len(first) == 250
    assert len(column(first)) == 256
    loader = make(dataset, **options)
    taken(loader, done)
    second = make(dataset, **options)
    second.load_state_dict(loader.state_dict())
    epochs = [column(reference) for _ in range(2)]
    assert column(second) == (epochs[0][done:] or epochs[1])


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("epoch_size", "drop_last"),
    [
        (None, False),
        (38, True),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in ((None, True), (38, False), (43, False), (43, True))
        ),
    ],
)
@pytest.mark.parametrize("done", [1, 50], ids=["within", "at the end"])
@pytest.mark.parametrize(
    ("there", "here"), [((2, 6), (3, 4)), ((3, 4), (2, 6)), ((2, 6), (3, 8)), ((2, 6), (3, 5))]
)
def test_state_warns_if_ranks_then_have_unequal_batches(
    numbers: Dataset,
    there: tuple[int, int],
    here: tuple[int, int],
    done: int,
    epoch_size: int | None,
    drop_last: bool,
) -> None:
    """Worlds are given as the number of ranks, each on its own node, and the batch size."""
    options = {"epoch_size": epoch_size, "loader": {"drop_last": drop_last}, "num_epochs": 2}
    first = make(numbers, there[1], world=(0, there[0]), **options)
    taken(first, done)
    ranks = [make(numbers, here[1], world=(rank, here[0]), **options) for rank in range(here[0])]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for loader in ranks:
            loader.load_state_dict(first.state_dict())
    try:
        passes = [[len(column(loader)) for _ in range(2)] for loader in ranks]
    except (InvalidArgumentError, StateMismatchError):  # ranks cannot share a global batch
        passes = []
    is_uneven = any(found != passes[0] for found in passes)
    assert len(warned) == is_uneven * len(ranks)
    assert all("different numbers of batches" in f"{one.message}" for one in warned)


def test_state_from_a_different_dataset_raises_error(numbers: Dataset, tmp_path: Path) -> None:
    other = make(write_numbers(tmp_path, ROWS))
    with pytest.raises(StateMismatchError, match=r"dataset: '\w+' there, '\w+' here"):
        make(numbers).load_state_dict(other.state_dict())
    foreign = {key: value for key, value in other.state_dict().items() if key != "mdstorm"}
    loader = make(numbers)
    loader.load_state_dict({**foreign, "epoch": 0, "sample_in_epoch": 4000})
    with pytest.raises(StateMismatchError, match=r"does not fit .* after 4000 samples"):
        next(iter(loader))


def test_batches_from_one_stream_resumed_on_more_nodes_than_canonical_ones_raise_error(
    numbers: Dataset,
) -> None:
    options = {"batching_method": "device_per_stream"}
    first = make(numbers, 6, world=(0, 2), **options)  # so that there are two canonical nodes
    taken(first, 1)
    loader = make(numbers, 3, world=(0, 4), **options)
    loader.load_state_dict(first.state_dict())
    with pytest.raises(StateMismatchError, match=r"multiple of the 4 .* num_canonical_nodes=2"):
        next(iter(loader))


def test_state_with_different_settings_raises_error_within_an_epoch(numbers: Dataset) -> None:
    first = make(numbers, shuffle_algo="naive")
    begun = first.state_dict()
    taken(first, 2)
    with pytest.raises(StateMismatchError, match="shuffle_algo: 'naive' there, 'py1e' here"):
        make(numbers).load_state_dict(first.state_dict())
    make(numbers).load_state_dict(begun)


def test_state_from_the_exact_order_raises_error(numbers: Dataset) -> None:
    exact = StreamingDataset(local=numbers.url, order=ExactOrder(seed=1))
    state = StreamingDataLoader(exact).state_dict()
    with pytest.raises(StateMismatchError, match="not taken in the order 'elastic'"):
        make(numbers).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="not taken in the order 'exact'"):
        exact.load_state_dict(make(numbers).state_dict())


def test_dataset_batch_size_takes_precedence_over_loader_batch_size(
    numbers: Dataset,
) -> None:
    options: dict[str, Any] = {**SHUFFLED, "local": numbers.url}
    loader = StreamingDataLoader(StreamingDataset(**options), 4, num_workers=2)
    assert column(loader) == column(make(numbers))
    other = StreamingDataLoader(StreamingDataset(**options, batch_size=4), 3, num_workers=2)
    assert [len(batch) for batch in column(other)][:2] == [3, 3]
    assert [sample["number"] for sample in StreamingDataset(**options)] == rows(make(numbers))
    plain: DataLoader[Any] = DataLoader(StreamingDataset(**options), batch_size=4, num_workers=1)
    assert column(plain) == column(make(numbers))
    stratified = StreamingDataset(**options, batching_method="stratified")
    with pytest.raises(InvalidArgumentError, match="please pass `batch_size`"):
        next(iter(stratified))


@pytest.mark.long
@pytest.mark.parametrize("num_workers", [1, 2])
def test_state_with_different_loader_batch_size_resumes_or_raises_error(
    numbers: Dataset, num_workers: int
) -> None:
    def made() -> StreamingDataLoader:
        dataset = StreamingDataset(local=numbers.url, batch_size=4, **SHUFFLED)
        return StreamingDataLoader(dataset, 3, num_workers=num_workers)

    first, second, third = made(), made(), made()
    epochs = [rows(first), rows(first)]
    begun = list(chain.from_iterable(taken(second, 5)))
    if num_workers == 1:
        third.load_state_dict(second.state_dict())
        assert begun + rows(third) == epochs[0]
    else:
        with pytest.raises(StateMismatchError, match="batch_size=4, its loader batch_size=3"):
            second.state_dict()
    last = made()
    rows(last)
    third.load_state_dict(last.state_dict())
    assert rows(third) == epochs[1]


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_state_after_a_dropped_last_batch_resumes_with_the_next_epoch(
    numbers: Dataset, num_workers: int
) -> None:
    options = {"loader": {"drop_last": True, "num_workers": num_workers}}
    first = make(numbers, **options)
    (one, two) = ([list(batch) for batch in column(first)] for _ in range(2))
    first = make(numbers, **options)
    batches = iter(first)
    for _ in one:
        next(batches)
    for is_over in (False, True):
        if is_over:
            assert next(batches, None) is None
        other = make(numbers, **options)
        other.load_state_dict(first.state_dict())
        assert column(other) == two


def test_infinite_epochs_without_a_full_batch_end_with_a_warning(numbers: Dataset) -> None:
    endless = make(numbers, ROWS + 1, num_epochs=None, loader={"drop_last": True})
    with pytest.warns(UserWarning, match="no epoch has enough rows for a full batch"):
        assert list(endless) == []
