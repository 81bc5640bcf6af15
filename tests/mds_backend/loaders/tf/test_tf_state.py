"""States of TensorFlow datasets, in both orders, and between TensorFlow and PyTorch."""

import json
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import tensorflow as tf
from tests.mds_backend.loaders.loaders import Launch

from mdstorm_backend import Dataset, ElasticOrder, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.loaders.tf import make_tf_dataset

ROWS, SHARDS, BATCH = 50, 5, 4
ORDERS = {
    "exact": ExactOrder(seed=3, shuffle_shards=True, window=20),
    "elastic": ElasticShare(ElasticOrder(batch_size=BATCH, shuffle=True, shuffle_seed=3)),
}
with_either_order = pytest.mark.parametrize("order", ORDERS)


def make(dataset: Dataset, order: str, **options: Any) -> Any:
    return make_tf_dataset(
        lambda: ReaderOptions(dataset, ORDERS[order], **options), batch_size=BATCH
    )


def column(batches: Any) -> list[list[int]]:
    return [batch.number.numpy().tolist() for batch in batches]


def torch_loader(dataset: Dataset, order: str, **options: Any) -> StreamingDataLoader:
    source = StreamingDataset(local=dataset.url, order=ORDERS[order], **options)
    return StreamingDataLoader(source, batch_size=BATCH)


def torch_column(loader: StreamingDataLoader) -> list[list[int]]:
    return [batch["number"].tolist() for batch in loader]


@with_either_order
@pytest.mark.parametrize(
    "done", [13, 39, *(pytest.param(done, marks=pytest.mark.long) for done in (1, 20))]
)
def test_a_state_gives_exactly_the_rest(numbers: Dataset, order: str, done: int) -> None:
    first, second = (make(numbers, order, num_epochs=3) for _ in range(2))
    whole = column(make(numbers, order, num_epochs=3))
    assert column(islice(first, done)) == whole[:done]
    state = json.loads(json.dumps(first.state_dict()))
    second.load_state_dict(state)
    if done < len(whole):
        assert column(second) == whole[done:]
    torch = torch_loader(numbers, order, num_epochs=3)
    torch.load_state_dict(state)
    if done < len(whole):
        assert torch_column(torch) == whole[done:]


@with_either_order
def test_pytorch_states_are_continued(numbers: Dataset, order: str) -> None:
    torch, tensorflow = torch_loader(numbers, order), make(numbers, order)
    iterator = iter(torch)
    done = [next(iterator)["number"].tolist() for _ in range(5)]
    tensorflow.load_state_dict(torch.state_dict())
    assert done + column(tensorflow) == torch_column(torch_loader(numbers, order))
    # The pass after that is again a whole one.
    assert len(column(tensorflow)) == len(torch)


@with_either_order
def test_what_a_function_of_tensorflow_takes_is_counted_by_the_user(
    numbers: Dataset, order: str
) -> None:
    first, second = make(numbers, order), make(numbers, order)
    whole = column(make(numbers, order))

    @tf.function
    def step(iterator: Any) -> Any:
        return next(iterator).number

    iterator = iter(first)
    assert [step(iterator).numpy().tolist() for _ in range(3)] == whole[:3]
    with pytest.raises(StateMismatchError, match=r"TensorFlow took them itself.*batches="):
        first.state_dict()
    second.load_state_dict(first.state_dict(batches=3))
    assert column(second) == whole[3:]
    with pytest.raises(StateMismatchError, match="no state after 99 batches"):
        first.state_dict(batches=99)


def test_the_state_is_that_of_the_iteration_which_was_begun_last(numbers: Dataset) -> None:
    dataset = make(numbers, "elastic")
    first, second = iter(dataset), iter(dataset)
    next(first), next(first), next(second)
    assert (dataset.state_dict()["epoch"], dataset.state_dict()["sample_in_epoch"]) == (1, BATCH)
    iter(dataset)  # never used
    third = iter(dataset)
    next(third), next(third)
    assert (dataset.state_dict()["epoch"], dataset.state_dict()["sample_in_epoch"]) == (2, 8)


def test_a_state_of_the_other_order_is_refused(numbers: Dataset) -> None:
    with pytest.raises(StateMismatchError, match="order 'exact'"):
        make(numbers, "exact").load_state_dict(make(numbers, "elastic").state_dict())
    with pytest.raises(StateMismatchError, match="order 'elastic'"):
        make(numbers, "elastic").load_state_dict(make(numbers, "exact").state_dict())


@with_either_order
def test_a_rank_that_looks_at_a_batch_first_is_not_ahead(
    numbers: Dataset, order: str, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(0, 2)
    monkeypatch.setitem(ORDERS, order, replace(ORDERS[order], follows_world=True))
    looked, asked, other = (make(numbers, order) for _ in range(3))
    whole = [column(other) for _ in range(3)]
    for dataset in (looked, asked):
        assert column(islice(dataset, 1)) == whole[0][:1]
    assert column(looked) == whole[0]
    state = asked.state_dict()  # of one who has trained on that batch
    assert column(asked) == whole[1]
    asked.load_state_dict(state)
    assert column(asked) == whole[0][1:]
    # Only the first iteration is a look.
    assert column(islice(looked, 1)) == whole[1][:1]
    assert column(looked) == whole[2]
