"""The steps of the elastic order: weights, shard samples, partitions and shuffles."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mds_backend.elastic.examples import patient

from mdstorm_backend.elastic import partition, sampling, shuffle, shuffles
from mdstorm_backend.elastic.sampling import parse_epoch_size, samples_per_shard, weigh
from mdstorm_backend.elastic.shuffles import SHUFFLE_ALGORITHMS
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.order import StreamShape

pytestmark = pytest.mark.filterwarnings("ignore:(Trying|Attempting) to partition:UserWarning")


@patient
@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0.01, 100)), min_size=1), st.integers(1, 10**6)
)
def test_samples_chosen_by_proportion_add_up_to_the_epoch_size(
    streams: list[tuple[int, float]], epoch_size: int
) -> None:
    shapes = [StreamShape((size,), proportion=weight) for size, weight in streams]
    found = weigh(shapes, epoch_size, 1)
    assert sum(weight.choose for weight in found) == epoch_size
    for weight, (size, _) in zip(found, streams, strict=True):
        assert abs(weight.choose - weight.proportion * epoch_size) <= 1 + 1e-6
        assert weight.repeat == weight.choose / size


def test_streams_without_samples_get_no_samples() -> None:
    found = weigh([StreamShape(()), StreamShape((2,))], None, 0)
    assert [(w.repeat, w.choose) for w in found] == [(0, 0), (1, 2)]
    assert [w.choose for w in weigh([StreamShape(())], None, 0)] == [0]
    assert [w.choose for w in weigh([StreamShape((), proportion=1)], None, 0)] == [0]


@pytest.mark.parametrize(
    ("streams", "epoch_size", "message"),
    [
        ([StreamShape((1,), proportion=1), StreamShape((1,))], None, "cannot be mixed"),
        ([StreamShape((1,), proportion=1), StreamShape((1,), choose=1)], None, "cannot be mixed"),
        ([StreamShape((1,), repeat=2)], 10, "epoch_size cannot be combined with repeat"),
        ([StreamShape((1,), choose=2)], 10, "epoch_size cannot be combined with repeat or choose"),
        ([StreamShape((1,), proportion=0)], None, "weights of all streams are 0"),
        ([StreamShape(())], 5, "weights of all streams are 0"),
        ([StreamShape((), choose=2)], None, "stream 0 has no samples, but its weight requires 2"),
    ],
)
def test_incompatible_stream_weights_raise_error(
    streams: list[StreamShape], epoch_size: int | None, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        weigh(streams, epoch_size, 0)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ({"proportion": 1, "repeat": 1}, InvalidArgumentError, "found proportion and repeat"),
        ({"repeat": 1, "choose": 0}, InvalidArgumentError, "found repeat and choose"),
        ({"repeat": -1}, InvalidArgumentError, "repeat of a stream must be finite and not neg"),
        ({"proportion": float("nan")}, InvalidArgumentError, "must be finite"),
        ({"choose": -1}, InvalidArgumentError, "choose must be at least 0"),
        ({"choose": 1.5}, ArgumentTypeError, "choose must be an integer"),
        ({"proportion": "1"}, ArgumentTypeError, "proportion of a stream must be a number"),
        ({"repeat": True}, ArgumentTypeError, "repeat of a stream must be a number"),
    ],
)
def test_invalid_or_multiple_weights_for_a_stream_raise_error(
    weights: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        StreamShape((1,), **weights)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (None, None),
        (0, None),
        (7, 7),
        (np.int64(7), 7),
        ("100", 100),
        ("10k", 10_000),
        (" 1.5M ", 1_500_000),
        ("2b", 2 * 10**9),
        ("1e-3t", 10**9),
    ],
)
def test_epoch_size_may_be_a_number_or_a_string(size: Any, expected: int | None) -> None:
    assert parse_epoch_size(size) == expected


NO_SIZES = ["", "k", "10g", "ten", "1.5", "inf k", "nank"]


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        *((text, InvalidArgumentError, "suffixes k, m, b, t") for text in NO_SIZES),
        *((size, InvalidArgumentError, "must be at least 0") for size in (-1, "-1", "-2k")),
        (1.5, ArgumentTypeError, "epoch_size must be an integer"),
    ],
)
def test_invalid_epoch_size_raises_error(size: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_epoch_size(size)


def test_shard_before_empty_shard_gets_as_many_samples_as_in_mosaicml_streaming() -> None:
    sizes = [2, 1, 0, 1, 2, 1, 1, 1, 1, 2, 1]
    counts = samples_per_shard(sizes, 24, 2, 319858539505, 1, False)
    assert counts.tolist() == [2, 3, 0, 2, 3, 2, 2, 2, 2, 4, 2]


@patient
@given(st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any), st.integers(1, 30))
def test_samples_per_shard_computed_in_chunks_equal_those_computed_at_once(
    sizes: list[int], chunk: int
) -> None:
    choose = sum(sizes) * 2 // 3
    expected = samples_per_shard(sizes, choose, 2, 5, 0, False).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "CHUNK", chunk)
        assert samples_per_shard(sizes, choose, 2, 5, 0, False).tolist() == expected


def test_sampling_from_empty_shards_raises_error() -> None:
    assert samples_per_shard([0, 0], 0, 1, 0, 0, False).tolist() == [0, 0]
    with pytest.raises(InvalidArgumentError, match="cannot take 3 samples"):
        samples_per_shard([0, 0], 3, 1, 0, 0, False)


counts = st.integers(1, 6)


@patient
@given(st.tuples(counts, counts, counts, counts), st.integers(1, 300), counts)
def test_finished_epoch_has_no_remaining_samples(
    shape: tuple[int, int, int, int], num_samples: int, times: int
) -> None:
    """MosaicML Streaming cannot resume at the end of an epoch lengthened by canonical nodes."""
    canonical = shape[0] * times
    work = partition("orig", num_samples, canonical, *shape)
    for seen in (int((work >= 0).sum()), canonical * -(-num_samples // canonical)):
        assert partition("orig", num_samples, canonical, *shape, seen).shape[3] == 0


def test_fewer_samples_than_canonical_nodes_are_repeated_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="2 samples, which are fewer than the canonical") as record:
        work = partition("orig", 2, 4, 1, 1, 1, 4)
    assert work.ravel().tolist() == [0, 1, 0, 1]
    assert "Set a smaller num_canonical_nodes" in str(record[0].message)


def test_node_with_too_few_samples_for_its_ranks_warns() -> None:
    with pytest.warns(UserWarning, match="7 samples of a physical node among 8 ranks"):
        work = partition("orig", 25, 4, 4, 8, 1, 4)
    assert set(work.ravel().tolist()) - {-1} == set(range(25))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        partition("orig", 60, 4, 4, 8, 1, 4)
        partition("orig", 25, 4, 4, 8, 1, 4, 8)  # 17 samples remain in the epoch


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("best", 9, 1, 1, 1, 1, 1), r"Unknown partition_algo: 'best'\. Use one of .'relaxed'"),
        (("orig", 9, 2, 3, 1, 1, 1), "2 canonical nodes cannot be shared by 3 physical nodes"),
        (("relaxed", 9, 2, 3, 1, 1, 1), "2 canonical nodes cannot be shared by 3 physical nodes"),
        (("relaxed", 9, 2, 3, 1, 1, 1, 0, 2), "batch of 3 samples cannot be shared"),
        (("orig", 3, 1, 8, 1, 1, 1), "3 samples are too few for 8 physical nodes"),
        (("orig", 9, 0, 1, 1, 1, 1), "num_canonical_nodes must be at least 1, found 0"),
        (("orig", -1, 1, 1, 1, 1, 1), "num_samples must be at least 0, found -1"),
        (("orig", 9, 1, 1, 1, 1, 1, -2), "drop_first must be at least 0, found -2"),
        (("orig", 9, 1, 1, 1, 0, 1), "workers_per_rank must be at least 1, found 0"),
        (("orig", 9, 1, 1, 1, 1, 0), "batch_size must be at least 1, found 0"),
        (("orig", 9, 1, 1, 1, 1, 1.5), r"batch_size must be an integer, found 1\.5"),
        (("orig", 10, 1, 1, 2, 1, 4, 29), "after 29 samples of an epoch that has 10"),
    ],
)
def test_invalid_partition_arguments_raise_error(arguments: tuple[Any, ...], message: str) -> None:
    error = ArgumentTypeError if "integer" in message else InvalidArgumentError
    with pytest.raises(error, match=message):
        partition(*arguments)


seeds = st.integers(0, 1 << 60)


@patient
@given(
    st.lists(st.integers(1, 30), min_size=20, max_size=40),
    st.integers(1, 3),
    seeds,
    st.integers(2, 60),
    st.data(),
)
def test_py1e_computed_in_windows_equals_py1e_computed_in_one_piece(
    sizes: list[int], nodes: int, seed: int, block: int, data: st.DataObject
) -> None:
    expected = shuffle("py1e", sizes, nodes, seed, 0, block).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffles, "WINDOW", data.draw(st.integers(1, 50)))
        patch.setattr(shuffles, "SORTED_AT_ONCE", data.draw(st.integers(1, 50)))
        assert shuffle("py1e", sizes, nodes, seed, 0, block).tolist() == expected


@pytest.mark.parametrize("algo", SHUFFLE_ALGORITHMS)
def test_dataset_with_fewer_samples_than_canonical_nodes_is_shuffled(algo: str) -> None:
    """MosaicML Streaming's py1e raises an error in this case."""
    assert sorted(shuffle(algo, [2, 1], 8, 0, 0, 100).tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("algo", "message"),
    [("py3x", "Unknown shuffle_algo: 'py3x'"), ("py1e", "of 0 samples is too small for py1e")],
)
def test_invalid_shuffle_algorithm_raises_error(algo: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        shuffle(algo, [3, 4], 1, 0, 0, 0)


@pytest.mark.parametrize(
    "positions",
    [
        np.empty(0),
        np.zeros(1),
        np.full(7, 2.5),
        np.random.default_rng(0).uniform(-3, 100_000, 100_000),
        # Nearly equal values that rounding makes equal.
        np.append(np.random.default_rng(0).uniform(0, 1e-9, 1_000), 5e6),
        np.random.default_rng(0).integers(0, 50, 1_000) / 7,
    ],
    ids=["none", "one", "equal", "spread", "close", "repeated"],
)
def test_positions_that_rounding_makes_equal_are_sorted_exactly(
    positions: np.ndarray[Any, np.dtype[np.float64]],
) -> None:
    order = shuffles.sorting_order(positions)
    assert positions[order].tolist() == np.sort(positions).tolist()
    assert np.sort(order).tolist() == list(range(len(positions)))
