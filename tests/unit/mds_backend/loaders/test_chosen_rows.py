"""``rows=`` of `StreamingDataset`: an epoch consists of these rows."""

import json
from collections import Counter
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.kit.loaders import (
    Filter,
    Negative,
    Own,
    Repeat,
    column,
    rows,
    saved,
    shuffles,
    taken,
)
from tests.kit.small_datasets import write_dataset, write_numbers

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    NoDataAvailableError,
    StateMismatchError,
)

ROWS, SHARDS = 61, 9
LONG = [3, 3, *range(20, 50, 2), 60, 0, 7]


def selection(draw: st.DrawFn) -> tuple[Any, list[int]]:
    """Return a value of ``rows=``, and the rows that it chooses."""
    kind = draw(st.sampled_from(["numbers", "sorted", "slice", "mask"]))
    if kind == "slice":
        part = slice(draw(st.integers(0, 30)), draw(st.integers(35, 80)), draw(st.integers(1, 3)))
        part = draw(st.sampled_from([part, slice(None, None, -2)]))
        return part, list(range(ROWS)[part])
    if kind == "mask":
        mask = np.array(draw(st.lists(st.booleans(), min_size=ROWS, max_size=ROWS)))
        mask[draw(st.integers(0, ROWS - 1))] = True
        return mask, np.flatnonzero(mask).tolist()
    numbers = draw(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=90))
    if kind == "sorted":
        numbers.sort()
    return draw(st.sampled_from([numbers, np.array(numbers, np.int32)])), numbers


selections = st.composite(selection)()


def loader(
    url: str,
    chosen: Any,
    batch_size: int = 4,
    shuffle: dict[str, Any] | None = None,
    kind: type[StreamingDataset] = StreamingDataset,
    drop_last: bool = False,
    num_workers: int = 0,
    **options: Any,
) -> StreamingDataLoader:
    """Make a loader in the exact order."""
    dataset = kind(local=url, order=ExactOrder(**(shuffle or {})), rows=chosen, **options)
    forked = {"num_workers": num_workers, "multiprocessing_context": "fork"} if num_workers else {}
    return StreamingDataLoader(dataset, batch_size=batch_size, drop_last=drop_last, **forked)


worlds = st.tuples(st.integers(1, 5), st.integers(1, 30), st.integers(0, 12))


@given(selections, shuffles, st.lists(worlds, min_size=1, max_size=4), st.integers(1, 3), st.data())
def test_epochs_have_exactly_the_chosen_rows_over_any_chain_of_worlds(
    url: str,
    chosen: tuple[Any, list[int]],
    shuffle: dict[str, Any],
    worlds_in_turn: list[tuple[int, int, int]],
    epochs: int,
    data: st.DataObject,
) -> None:
    given_rows, expected = chosen
    seen: list[int] = []
    state: Any = None
    for world_size, batch_size, batches in [*worlds_in_turn, (1, 7, None)]:
        try:
            ranks = [
                loader(
                    url,
                    given_rows,
                    batch_size,
                    {**shuffle, "rank": rank, "world_size": world_size},
                    num_epochs=epochs,
                )
                for rank in range(world_size)
            ]
            if state is not None:
                for one in ranks:
                    one.load_state_dict(json.loads(json.dumps(state)))
            found, states = zip(*(saved(one, batches) for one in ranks), strict=True)
        except NoDataAvailableError:
            continue
        assert len({len(batches) for batches in found}) == 1
        seen += [row for batches in found for batch in batches for row in batch]
        state = data.draw(st.sampled_from(states))
        if state["mdstorm"]["finished"]:
            break
    assert Counter(seen) == Counter(expected * epochs)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_read_the_chosen_rows(url: str, workers: int) -> None:
    found = column(loader(url, LONG, 5, {"seed": 4, "shuffle_rows": True}, num_workers=workers))
    expected = column(loader(url, LONG, 5, {"seed": 4, "shuffle_rows": True}))
    assert found == expected
    assert sorted(chain.from_iterable(found)) == sorted(LONG)


def test_shuffled_rows_are_permuted_within_windows_of_shards(tmp_path: Path) -> None:
    url = write_numbers(tmp_path / "data", 4000, tasks=8).url
    chosen = np.random.default_rng(1).integers(0, 4000, 2000)
    shuffle = {"seed": 5, "shuffle_rows": True, "window": 300}
    one = loader(url, chosen, 100, shuffle)
    batches = column(one)
    assert sorted(chain.from_iterable(batches)) == sorted(chosen.tolist())
    assert batches[0] != sorted(batches[0])
    # A batch has rows of the few shards of its window.
    assert max(max(batch) - min(batch) for batch in batches) < 2500


def test_transform_that_keeps_rows_gets_the_chosen_rows(url: str) -> None:
    class Double:
        columns, keeps_rows = ("number",), True

        def __call__(self, batch: Any) -> Any:
            return {"number": batch["number"] * 2}

    assert rows(loader(url, LONG, transform=Double())) == [2 * row for row in LONG]


@pytest.mark.parametrize("shuffle", [{}, {"seed": 3, "shuffle_shards": True, "shuffle_rows": True}])
@pytest.mark.parametrize("transform", [Filter(lambda n: n % 2 == 0), Repeat(2)])
def test_transform_that_changes_the_number_of_rows_gets_the_chosen_rows(
    url: str, transform: Any, shuffle: dict[str, Any]
) -> None:
    found = rows(loader(url, LONG, shuffle=shuffle, transform=transform))
    expected = transform({"number": np.array(LONG)})["number"].tolist()
    assert sorted(found) == sorted(expected)
    if not shuffle:
        assert found == expected


def test_samples_are_numbered_among_the_chosen_rows(url: str) -> None:
    dataset = StreamingDataset(local=url, order=ExactOrder(), rows=LONG)
    assert len(dataset) == dataset.num_samples == dataset.size == len(LONG)
    assert [dataset[i]["number"] for i in range(len(LONG))] == LONG
    assert dataset[-1]["number"] == LONG[-1]
    assert [sample["number"] for sample in dataset] == LONG
    with pytest.raises(IndexError):
        dataset[len(LONG)]
    assert sum(dataset.samples_per_shard) == ROWS  # shards as stored


@pytest.mark.parametrize("kind", [Negative, Own])
def test_overridden_methods_get_the_chosen_rows(url: str, kind: Any) -> None:
    sign = -1 if kind is Negative else 1
    assert rows(loader(url, LONG, kind=kind)) == [sign * row for row in LONG]


def test_columns_that_are_read_by_sample_are_those_of_the_chosen_rows(tmp_path: Path) -> None:
    texts = {"text": [f"t{n}" for n in range(50)], "number": range(50)}
    url = write_dataset(tmp_path / "data", texts, {"text": "string", "number": "long"}, tasks=5).url
    dataset = StreamingDataset(local=url, order=ExactOrder(), rows=[40, 2, 2, 33])
    assert [sample["text"] for sample in dataset] == ["t40", "t2", "t2", "t33"]
    plain = torch.utils.data.DataLoader(dataset, batch_size=2)
    assert [text for batch in plain for text in batch["text"]] == ["t40", "t2", "t2", "t33"]


def test_rows_are_numbered_over_all_streams(tmp_path: Path) -> None:
    streams = [Stream(local=write_numbers(tmp_path / f"{i}", 10).url) for i in range(3)]
    dataset = StreamingDataset(streams=streams, order=ExactOrder(), rows=[25, 0, 9, 10])
    assert rows(StreamingDataLoader(dataset, batch_size=3)) == [5, 0, 9, 0]


def test_damaged_rows_are_left_out_of_their_batches(tmp_path: Path) -> None:
    write_numbers(tmp_path / "data", ROWS, tasks=SHARDS)
    damaged = sorted((tmp_path / "data").glob("*.mds"))[1]
    damaged.write_bytes(b"")
    options = {"on_corrupt": "skip", "shuffle": {"seed": 2, "shuffle_rows": True}}
    whole = set(rows(loader(f"{tmp_path}/data", None, **options)))
    assert len(whole) < ROWS
    found = rows(loader(f"{tmp_path}/data", [*range(30), *range(30)], **options))
    assert Counter(found) == Counter(2 * [row for row in range(30) if row in whole])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([3, ROWS], f"row {ROWS}.*numbered from 0 to {ROWS - 1}"),
        ([-1], "row -1.*numbered from 0"),
        ([], "chooses no rows"),
        (slice(70, 80), "chooses no rows"),
        (np.zeros(ROWS, bool), "chooses no rows"),
        (np.ones(ROWS - 1, bool), f"{ROWS - 1} values.*{ROWS} rows"),
        *(
            (make([n % 2 for n in range(ROWS)]), r"a mask.*rows=np.asarray\(rows, bool\)")
            for make in (list, tuple, np.uint8, torch.tensor, pd.Series)
        ),
        ([1] * ROWS, "a mask"),
        (np.array([(1 << 64) - 1], np.uint64), f"row {(1 << 64) - 1}, but"),
    ],
)
def test_wrong_rows_raise_an_error_before_any_batch(url: str, wrong: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        StreamingDataset(local=url, batch_size=2, rows=wrong)
    lazy = StreamingDataset(local=url, order=ExactOrder(), rows=wrong)
    with pytest.raises(InvalidArgumentError, match=message):
        iter(lazy).__next__()


def test_numbers_0_and_1_are_rows_where_they_cannot_be_a_mask(url: str, tmp_path: Path) -> None:
    assert rows(loader(url, [0, 1] * ROWS)) == [0, 1] * ROWS
    assert rows(loader(url, [0, 1, 0, 1])) == [0, 1, 0, 1]
    assert rows(loader(write_numbers(tmp_path, 2).url, [1, 0])) == [1, 0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([True, 2], "booleans among integers"),
        (np.ma.masked_greater(np.ones(ROWS, bool), 0), "masked array"),
        (np.ma.array([1, 2], mask=[False, True]), "masked array"),
    ],
    ids=str,
)
def test_rows_with_two_meanings_raise_an_error(url: str, wrong: Any, message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=message):
        StreamingDataset(local=url, batch_size=2, rows=wrong)


@pytest.mark.parametrize("wrong", ["5", 5, [1.5], [[1, 2]], {"a": 1}])
def test_rows_of_another_type_raise_an_error(url: str, wrong: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="rows must be"):
        StreamingDataset(local=url, order=ExactOrder(), rows=wrong)


def test_state_loads_only_with_the_same_rows(url: str) -> None:
    one = loader(url, [1, 2, 3, 9, 20, 21], 2)
    list(islice(one, 2))
    state = one.state_dict()
    same = loader(url, np.array([1, 2, 3, 9, 20, 21]), 2)
    same.load_state_dict(state)
    assert rows(same) == [20, 21]
    for other in ([1, 2, 3, 9, 21, 20], slice(0, 6), None):
        with pytest.raises(StateMismatchError, match=r"rows: .*pass the same rows"):
            loader(url, other, 2).load_state_dict(state)
    whole = loader(url, None, 2)
    list(islice(whole, 2))
    with pytest.raises(StateMismatchError, match="rows: None there"):
        same.load_state_dict(whole.state_dict())


def test_slice_numbers_and_mask_that_choose_the_same_rows_share_states(url: str) -> None:
    one = loader(url, slice(10, 30), 2)
    list(islice(one, 2))
    mask = np.isin(np.arange(ROWS), range(10, 30))
    for same in (range(10, 30), mask):
        other = loader(url, same, 2)
        other.load_state_dict(one.state_dict())
        assert rows(other) == [*range(14, 30)]


elastic_worlds = st.tuples(st.sampled_from([1, 2, 3, 4, 6]), st.integers(0, 6))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Trying to partition")
@given(
    selections,
    st.booleans(),
    st.lists(elastic_worlds, min_size=1, max_size=3),
    st.sampled_from(["py1e", "py1br", "py2s", "naive"]),
    st.data(),
)
def test_elastic_epochs_have_exactly_the_chosen_rows_over_any_chain_of_worlds(
    url: str,
    chosen: tuple[Any, list[int]],
    shuffle: bool,
    worlds_in_turn: list[tuple[int, int]],
    algorithm: str,
    data: st.DataObject,
) -> None:
    given_rows, expected = chosen
    assume(len(expected) >= 12)
    seen: list[int] = []
    state: Any = None
    for world_size, batches in [*worlds_in_turn, (1, None)]:
        ranks = []
        for rank in range(world_size):
            size = 12 // world_size
            dataset = StreamingDataset(
                local=url,
                rows=given_rows,
                batch_size=size,
                shuffle=shuffle,
                shuffle_algo=algorithm,
                shuffle_block_size=18,
                num_canonical_nodes=1,
                world=(rank, world_size),
            )
            ranks.append(StreamingDataLoader(dataset, batch_size=size))
        if state is not None:
            for one in ranks:
                one.load_state_dict(json.loads(json.dumps(state)))
        found = [taken(one, batches) for one in ranks]
        assert len({len(batches) for batches in found}) == 1
        seen += [row for batches in found for batch in batches for row in batch]
        state = data.draw(st.sampled_from(ranks)).state_dict()
        if state["mdstorm"]["finished"]:
            break
    # As in any epoch in this order, some samples are repeated so that all ranks have as many.
    assert not Counter(expected) - Counter(seen)
    assert set(seen) == set(expected)
    assert len(seen) < len(expected) + 12


@pytest.mark.parametrize(
    ("weight", "options"),
    [({"repeat": 2}, {}), ({}, {"batching_method": "per_stream"}), ({}, {"epoch_size": 3})],
    ids=["repeat", "batching_method", "epoch_size"],
)
def test_rows_with_other_epochs_raise_an_error(tmp_path: Path, weight: Any, options: Any) -> None:
    url = write_numbers(tmp_path / "data", 10).url
    for chosen in ({"rows": [1]}, {"where": [("number", "=", 1)]}):
        streams = [Stream(local=url, **weight)]
        with pytest.raises(InvalidArgumentError, match="cannot be combined with proportion"):
            StreamingDataset(streams=streams, batch_size=2, **chosen, **options)


def test_elastic_state_between_epochs_loads_only_with_the_same_rows(url: str) -> None:
    def loader_of(chosen: Any) -> StreamingDataLoader:
        dataset = StreamingDataset(local=url, batch_size=2, rows=chosen)
        return StreamingDataLoader(dataset, batch_size=2)

    one = loader_of([1, 2, 3])
    list(one)
    loader_of([1, 2, 3]).load_state_dict(one.state_dict())
    with pytest.raises(StateMismatchError, match="rows: "):
        loader_of([1, 2, 4]).load_state_dict(one.state_dict())


def test_downloaded_shards_have_the_chosen_rows(url: str, tmp_path: Path) -> None:
    order = ExactOrder(3, shuffle_rows=True)
    stream = {"remote": url, "local": str(tmp_path / "copy")}
    dataset = StreamingDataset(**stream, order=order, rows=[*LONG, *LONG])
    assert sorted(rows(StreamingDataLoader(dataset, batch_size=4))) == sorted([*LONG, *LONG])
    needed = {dataset.spanner[row][0] for row in LONG}
    assert len(list((tmp_path / "copy").rglob("*.mds"))) == len(needed)
