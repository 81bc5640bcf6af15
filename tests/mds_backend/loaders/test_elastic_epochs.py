from __future__ import annotations

from typing import Any

import pytest

from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.elastic_state import ElasticEpochs, Joining
from mdstorm_backend.order.world import World

ORDER = ElasticOrder(batch_size=4, shuffle_seed=5)
STATE = {
    "epoch": 3,
    "sample_in_epoch": 16,
    "num_canonical_nodes": 8,
    "shuffle_seed": 1,
    "initial_physical_nodes": 2,
}


def state(epochs: ElasticEpochs, num_samples: int = 0, **options: Any) -> dict[str, Any]:
    world = options.pop("world", World())
    options = {"from_beginning": False, **options}
    return epochs.state_dict(options.pop("order", ORDER), world, num_samples, **options)


def test_a_loaded_state_is_gone_on_with_and_says_how_to_order() -> None:
    epochs = ElasticEpochs()
    epochs.begin()
    epochs.load_state_dict(STATE)
    assert state(epochs) == STATE
    start = epochs.begin()
    assert (start.epoch, start.sample_in_epoch, start.initial_physical_nodes) == (3, 16, 2)
    order = start.order(ORDER)
    assert (order.num_canonical_nodes, order.shuffle_seed) == (8, 1)
    assert state(epochs, 8)["sample_in_epoch"] == 24
    assert state(epochs, 8, from_beginning=True)["sample_in_epoch"] == 8
    following = epochs.begin()
    assert (following.epoch, following.sample_in_epoch, following.shuffle_seed) == (4, 0, 1)
    assert state(epochs, 8)["sample_in_epoch"] == 8


def test_old_states_know_nothing_of_the_first_nodes() -> None:
    epochs = ElasticEpochs()
    epochs.load_state_dict({k: v for k, v in STATE.items() if k != "initial_physical_nodes"})
    assert epochs.begin().initial_physical_nodes is None


@pytest.mark.parametrize("value", [None, [], "state", 3])
def test_what_is_no_state_is_refused(value: Any) -> None:
    with pytest.raises(StateMismatchError, match="a state is the dict that state_dict"):
        ElasticEpochs().load_state_dict(value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("epoch", None),
        ("epoch", -2),
        ("sample_in_epoch", None),
        ("sample_in_epoch", "4"),
        ("num_canonical_nodes", 0),
        ("shuffle_seed", True),
        ("initial_physical_nodes", 1.0),
    ],
)
def test_damaged_states_are_refused_when_they_are_loaded(key: str, value: Any) -> None:
    epochs = ElasticEpochs()
    with pytest.raises(StateMismatchError, match=f"'{key}' has to be an integer"):
        epochs.load_state_dict({**STATE, key: value})
    assert epochs.next_epoch == 0


@pytest.mark.parametrize("key", ["num_canonical_nodes", "initial_physical_nodes"])
@pytest.mark.parametrize("nodes", [10**7, 10**30])
def test_more_nodes_than_anybody_has_are_refused(key: str, nodes: int) -> None:
    """Each node gets a sample, so that laying them out would not end."""
    with pytest.raises(StateMismatchError, match=f"'{key}' is {nodes}, and nobody has more"):
        ElasticEpochs().load_state_dict({**STATE, key: nodes})


def test_workers_of_a_group_join_in_one_epoch_at_a_time() -> None:
    mine = ElasticEpochs()
    copies = [ElasticEpochs() for _ in range(2)]
    for copy in copies:
        copy._record = mine._record

    def begin(worker: int, group: int) -> int:
        return copies[worker].begin(Joining(worker, group)).epoch

    assert [begin(1, 77), begin(0, 77)] == [0, 0]
    # Workers that stay, and others that are started anew.
    assert [begin(0, 77), begin(1, 77)] == [1, 1]
    copies[0]._begun = copies[1]._begun = 0
    assert [begin(0, 78), begin(1, 78)] == [2, 2]
    copies[0]._begun = copies[1]._begun = 0
    # A user's seed may give two groups one number.
    assert [begin(1, 78), begin(0, 78)] == [3, 3]
    assert mine.next_epoch == 4
