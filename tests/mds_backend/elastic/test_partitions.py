from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.elastic.examples import patient

from mdstorm_backend.elastic import partition, shuffle, shuffles
from mdstorm_backend.elastic.shuffles import SHUFFLE_ALGORITHMS
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError

pytestmark = pytest.mark.filterwarnings("ignore:(Trying|Attempting) to partition:UserWarning")

counts = st.integers(1, 6)


@patient
@given(st.tuples(counts, counts, counts, counts), st.integers(1, 300), counts)
def test_nothing_is_left_of_an_epoch_that_was_read_to_its_end(
    shape: tuple[int, int, int, int], num_samples: int, times: int
) -> None:
    """MosaicML Streaming refuses to resume there, where canonical nodes make the epoch longer."""
    canonical = shape[0] * times
    work = partition("orig", num_samples, canonical, *shape)
    for seen in (int((work >= 0).sum()), canonical * -(-num_samples // canonical)):
        assert partition("orig", num_samples, canonical, *shape, seen).shape[3] == 0


def test_fewer_samples_than_canonical_nodes_are_repeated_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="2 samples, which are fewer than the canonical") as record:
        work = partition("orig", 2, 4, 1, 1, 1, 4)
    assert work.ravel().tolist() == [0, 1, 0, 1]
    assert "Set a smaller num_canonical_nodes" in str(record[0].message)


@pytest.mark.filterwarnings("error")
def test_a_node_with_too_few_samples_for_its_ranks_warns() -> None:
    with pytest.warns(UserWarning, match="7 samples of a physical node among 8 ranks"):
        work = partition("orig", 25, 4, 4, 8, 1, 4)
    assert set(work.ravel().tolist()) - {-1} == set(range(25))
    partition("orig", 60, 4, 4, 8, 1, 4)
    partition("orig", 25, 4, 4, 8, 1, 4, 8)  # what is left of an epoch


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
def test_arguments_that_do_not_go_together_are_refused(
    arguments: tuple[Any, ...], message: str
) -> None:
    error = ArgumentTypeError if "integer" in message else InvalidArgumentError
    with pytest.raises(error, match=message):
        partition(*arguments)


sizes = st.lists(st.integers(0, 40), max_size=12)
nodes = st.integers(1, 9)
seeds = st.integers(0, 1 << 60)


@patient
@given(
    st.lists(st.integers(1, 30), min_size=20, max_size=40),
    st.integers(1, 3),
    seeds,
    st.integers(2, 60),
    st.data(),
)
def test_py1e_sorts_window_by_window_as_it_would_all_at_once(
    sizes: list[int], nodes: int, seed: int, block: int, data: st.DataObject
) -> None:
    expected = shuffle("py1e", sizes, nodes, seed, 0, block).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffles, "_WINDOW", data.draw(st.integers(1, 50)))
        patch.setattr(shuffles, "_SORTED_AT_ONCE", data.draw(st.integers(1, 50)))
        assert shuffle("py1e", sizes, nodes, seed, 0, block).tolist() == expected


@pytest.mark.parametrize("algo", [name for name in SHUFFLE_ALGORITHMS if name != "naive"])
@patient
@given(sizes, nodes, seeds, st.data())
def test_nodes_that_nobody_wants_are_left_out(
    algo: str, sizes: list[int], nodes: int, seed: int, data: st.DataObject
) -> None:
    wanted = sorted(data.draw(st.sets(st.integers(0, nodes - 1), min_size=1)))
    whole = shuffle(algo, sizes, nodes, seed, 1, 30)
    bounds = [len(whole) * node // nodes for node in range(nodes + 1)]
    expected = [whole[bounds[node] : bounds[node + 1]] for node in wanted]
    found = shuffles.permutation(algo, np.array(sizes, int), nodes, seed, 1, 30, wanted)
    assert found.tolist() == np.concatenate(expected).tolist()


@pytest.mark.parametrize("algo", SHUFFLE_ALGORITHMS)
def test_fewer_samples_than_canonical_nodes_are_shuffled(algo: str) -> None:
    """MosaicML Streaming's py1e raises here."""
    assert sorted(shuffle(algo, [2, 1], 8, 0, 0, 100).tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("algo", "block", "message"),
    [
        ("py3x", 100, r"Unknown shuffle_algo: 'py3x'\. Use one of .'naive', 'py1s', 'py2s'"),
        ("py1br", 1, "a shuffle block of 1 samples is too small for py1br"),
        ("py1e", 0, "a shuffle block of 0 samples is too small for py1e: use a larger"),
    ],
)
def test_algorithms_and_blocks_that_cannot_be_are_refused(
    algo: str, block: int, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        shuffle(algo, [3, 4], 1, 0, 0, block)
