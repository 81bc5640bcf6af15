from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.elastic.examples import patient

from mdstorm_backend.elastic import partition
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
