"""A state goes on only with the filters, the predicate and the function that it was taken with."""

import random
import string
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.small_datasets import write_dataset

from mdstorm import predicates as by
from mdstorm._selection.predicate_filter import described_predicate
from mdstorm.spark import SparkDatasetConverter
from mdstorm.transform import TransformSpec
from mdstorm_backend.errors import StateMismatchError, TransformError

pytestmark = pytest.mark.newest


@pytest.fixture(scope="module")
def converter(tmp_path_factory: pytest.TempPathFactory) -> SparkDatasetConverter:
    columns = {"id": np.arange(1_000), "x": np.arange(1_000) * 0.5}
    fields = {"id": "long", "x": "double"}
    dataset = write_dataset(
        tmp_path_factory.mktemp("selections") / "data", columns, fields, shard_size=2_000
    )
    return SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))


def even(number: Any) -> Any:
    return number % 2 == 0


def odd(number: Any) -> Any:
    return number % 2 == 1


def same(frame: Any) -> Any:
    return frame


def doubled(frame: Any) -> Any:
    return frame.assign(x=frame["x"] * 2)


class Low(by.PredicateBase):
    def __init__(self, test: Callable[[Any], Any]) -> None:
        self.test = test

    def get_fields(self) -> set[str]:
        return {"id"}

    def do_include(self, values: Any) -> Any:
        return self.test(values["id"])


SPLIT = partial(by.in_pseudorandom_split, [0.5, 0.5], predicate_field="id")
#: Arguments with which the state is taken, and those with which it is loaded.
OTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"filters": [("id", "<", 600)]}, {"filters": [("id", "<", 900)]}),
    ({"filters": [("id", "<", 600)]}, {}),
    ({}, {"filters": [("id", "<", 600)]}),
    ({"predicate": by.in_set(range(500), "id")}, {"predicate": by.in_set(range(501), "id")}),
    ({"predicate": by.in_lambda(["id"], even)}, {"predicate": by.in_lambda(["id"], odd)}),
    ({"predicate": SPLIT(0)}, {"predicate": SPLIT(1)}),
    (
        {"predicate": by.in_set(range(500), "id")},
        {"predicate": by.in_negate(by.in_set(range(500), "id"))},
    ),
    (
        {"predicate": by.in_reduce([by.in_set(range(500), "id")], any)},
        {"predicate": by.in_reduce([by.in_set(range(500), "id")], all)},
    ),
    ({"transform_spec": TransformSpec(same)}, {"transform_spec": TransformSpec(doubled)}),
    ({"transform_spec": TransformSpec(same)}, {}),
]
SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"filters": [("id", "<", 600), ("x", ">", 1.0)]},
        {"filters": [[("x", ">", 1), ("id", "<", np.int64(600))]]},
    ),
    ({"filters": [("id", "in", {7, 8, 9})]}, {"filters": [("id", "in", [9, 8, 7])]}),
    ({"predicate": by.in_set({1, 2, 3}, "id")}, {"predicate": by.in_set([3, 2, 1, 1], "id")}),
    (
        {"predicate": by.in_lambda(["id"], lambda id: id < 600)},
        {"predicate": by.in_lambda(["id"], lambda id: id <= 599)},
    ),
    ({"predicate": Low(even)}, {"predicate": Low(lambda id: id % 2 == 0)}),
    (
        {"transform_spec": TransformSpec(partial(doubled))},
        {"transform_spec": TransformSpec(doubled)},
    ),
]
in_either_order = pytest.mark.parametrize("order", ["exact", "elastic"])


def load(converter: SparkDatasetConverter, order: str, there: Any, here: Any) -> None:
    loader = converter.make_torch_dataloader(2, num_epochs=1, order=order, **there)
    assert len(list(islice(loader, 1))) == 1
    state = loader.state_dict()
    other = converter.make_torch_dataloader(2, num_epochs=1, order=order, **here)
    other.load_state_dict(state)


@in_either_order
@pytest.mark.parametrize(("there", "here"), OTHER, ids=range(len(OTHER)))
def test_another_selection_is_refused(
    converter: SparkDatasetConverter, order: str, there: Any, here: Any
) -> None:
    with pytest.raises(StateMismatchError, match=r"(filters|predicate|transform|dataset): "):
        load(converter, order, there, here)


@in_either_order
@pytest.mark.parametrize(("there", "here"), SAME, ids=range(len(SAME)))
def test_the_same_selection_in_other_words_goes_on(
    converter: SparkDatasetConverter, order: str, there: Any, here: Any
) -> None:
    load(converter, order, there, here)


def test_both_selections_are_named(converter: SparkDatasetConverter) -> None:
    message = r"filters: 'id < 600' there, 'id < 900' here"
    with pytest.raises(StateMismatchError, match=message):
        load(converter, "exact", *OTHER[0])


def test_a_predicate_is_known_by_its_values_in_any_order() -> None:
    letters = [*string.ascii_lowercase]
    assert described_predicate(by.in_set(letters, "x")) == f"in_set({letters}, 'x')"
    texts = {described_predicate(by.in_intersection(range(n), "id")) for n in (100, 101)}
    assert len(texts) == 2
    assert max(map(len, texts)) < 300


class World:
    """Ranks that train in lockstep on what a selection leaves, with `Join` for those that end."""

    def __init__(self, converter: SparkDatasetConverter, seed: int) -> None:
        self.converter = converter
        self.draw = draw = random.Random(seed)
        self.size, self.batch_size = draw.randint(2, 5), draw.choice([1, 7, 30, 120, 600])
        self.epochs = draw.choice([1, 1, 2, 3])
        self.drops = draw.choice([0, 1, 50, 99])
        # Rows that are left lie anywhere, or at one end: then some ranks have none.
        factor = draw.choice([1, 37])
        self.kept = frozenset(n for n in range(1_000) if n * factor % 1_000 >= 10 * self.drops)
        self.kind = draw.choice(["predicate", "filters", "transform", "both"])
        self.options = {
            "num_epochs": self.epochs,
            "shuffle_rows": draw.random() < 0.5,
            "shuffle_row_groups": draw.random() < 0.5,
            "shuffling_queue_capacity": draw.choice([0, 0, 100, 700]),
            **self.selection(),
        }

    def selection(self) -> dict[str, Any]:
        """Arguments that leave out rows."""
        kept = self.kept
        if self.kind == "filters":
            return {"filters": [("id", "in", sorted(kept))]}
        spec = TransformSpec(lambda frame: frame[frame["id"].isin(kept)])
        if self.kind == "transform":
            return {"transform_spec": spec}
        test = partial(by.in_lambda, ["id"], lambda id: id in kept)
        return {"predicate": test(), **({"transform_spec": spec} if self.kind == "both" else {})}

    def loaders(self, states: Any = None) -> list[Any]:
        loaders = [
            self.converter.make_torch_dataloader(
                self.batch_size, cur_shard=rank, shard_count=self.size, **self.options
            )
            for rank in range(self.size)
        ]
        for rank, loader in enumerate(loaders):
            loader.set_epoch(0)  # or each loader of a converter begins with another one
            if states is not None:
                loader.load_state_dict(states[rank])
        return loaders

    def steps(self, loaders: list[Any], most: int | None = None) -> list[list[list[int]]]:
        """The rows of each rank in each step, up to so many."""
        found: list[list[list[int]]] = [[] for _ in loaders]
        running = dict(enumerate(map(iter, loaders)))
        while running and (most is None or len(found[min(running)]) < most):
            for rank, batches in list(running.items()):
                if (batch := next(batches, None)) is None:
                    del running[rank]
                else:
                    found[rank].append(batch["id"].tolist())
            assert sum(map(len, found)) <= self.size * self.epochs * 1_000
        return found

    def check(self) -> None:
        """Check that all rows come once an epoch, in one go and after a resume at any step."""
        wanted = Counter(dict.fromkeys(self.kept, self.epochs))
        whole = self.steps(self.loaders())
        assert Counter(chain(*chain(*whole))) == wanted
        if self.kind == "transform":
            assert len(set(map(len, whole))) == 1
        before = self.loaders()
        most = self.draw.randint(1, max(map(len, whole)))
        first = self.steps(before, most)
        rest = self.steps(self.loaders([loader.state_dict() for loader in before]))
        for rank in range(self.size):
            is_over = len(first[rank]) == len(whole[rank])
            assert first[rank] + ([] if is_over else rest[rank]) == whole[rank]


def check_worlds(converter: SparkDatasetConverter, seeds: range) -> int:
    """Check worlds, and return how many were refused: a function that leaves too few rows."""
    refused = 0
    for seed in seeds:
        world = World(converter, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                world.check()
            except TransformError:
                assert world.kind in ("transform", "both")
                assert world.drops > 0
                refused += 1
            except Exception as error:
                raise AssertionError(f"world {seed}") from error
    return refused


def test_random_worlds_lose_no_row_that_a_selection_leaves(
    converter: SparkDatasetConverter,
) -> None:
    assert check_worlds(converter, range(30)) < 15
