from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.elastic.examples import patient

from mdstorm_backend.elastic import StreamShape, sampling
from mdstorm_backend.elastic.sampling import parse_epoch_size, samples_per_shard, weigh
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError

positive = st.floats(0.01, 100)


@patient
@given(st.lists(st.tuples(st.integers(1, 50), positive), min_size=1), st.integers(1, 10**6))
def test_an_epoch_is_shared_in_proportion_without_a_rest(
    streams: list[tuple[int, float]], epoch_size: int
) -> None:
    shapes = [StreamShape((size,), proportion=weight) for size, weight in streams]
    found = weigh(shapes, epoch_size, 1)
    assert sum(weight.choose for weight in found) == epoch_size
    for weight, (size, _) in zip(found, streams, strict=True):
        assert abs(weight.choose - weight.proportion * epoch_size) <= 1 + 1e-6
        assert weight.repeat == weight.choose / size


def test_absolute_weights_decide_the_size_of_the_epoch() -> None:
    streams = [StreamShape((10,), repeat=1.55), StreamShape((10,), choose=3), StreamShape((7,))]
    assert [w.choose for w in weigh(streams, None, 0)] == [15, 3, 7]


def test_streams_without_samples_are_allowed_where_nothing_is_asked_of_them() -> None:
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
        ([StreamShape((), choose=2)], None, "stream 0 has no samples, but its weight asks for 2"),
    ],
)
def test_weights_that_do_not_go_together_are_refused(
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
def test_a_stream_takes_one_weight_that_is_not_negative(
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
def test_epoch_sizes_are_numbers_or_texts(size: Any, expected: int | None) -> None:
    assert parse_epoch_size(size) == expected


@pytest.mark.parametrize("size", ["", "k", "10g", "ten", "1.5", "inf k", "nank"])
def test_texts_that_are_no_epoch_size_are_refused(size: str) -> None:
    with pytest.raises(InvalidArgumentError, match="suffixes k, m, b, t"):
        parse_epoch_size(size)


def test_negative_and_broken_epoch_sizes_are_refused() -> None:
    for size in (-1, "-1", "-2k"):
        with pytest.raises(InvalidArgumentError, match="epoch_size must be at least 0"):
            parse_epoch_size(size)
    with pytest.raises(ArgumentTypeError, match="epoch_size must be an integer"):
        parse_epoch_size(1.5)  # type: ignore[arg-type]


shards = st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any)


def test_a_shard_before_an_empty_one_gives_whole_picks_as_mosaics_does() -> None:
    sizes = [2, 1, 0, 1, 2, 1, 1, 1, 1, 2, 1]
    counts = samples_per_shard(sizes, 24, 2, 319858539505, 1, False)
    assert counts.tolist() == [2, 3, 0, 2, 3, 2, 2, 2, 2, 4, 2]


@patient
@given(shards, st.integers(1, 30))
def test_picks_are_counted_piece_by_piece_as_all_at_once(sizes: list[int], chunk: int) -> None:
    choose = sum(sizes) * 2 // 3
    expected = samples_per_shard(sizes, choose, 2, 5, 0, False).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "CHUNK", chunk)
        assert samples_per_shard(sizes, choose, 2, 5, 0, False).tolist() == expected


def test_nothing_can_be_taken_of_empty_shards() -> None:
    assert samples_per_shard([0, 0], 0, 1, 0, 0, False).tolist() == [0, 0]
    with pytest.raises(InvalidArgumentError, match="cannot take 3 samples"):
        samples_per_shard([0, 0], 3, 1, 0, 0, False)
