import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.elastic.examples import patient

from mdstorm_backend.elastic import shuffle, shuffles
from mdstorm_backend.elastic.shuffles import SHUFFLE_ALGORITHMS
from mdstorm_backend.errors import InvalidArgumentError

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
