"""Counters of loaders, in one table, compared with batches and rows that the tests count."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from tests.kit.loaders import Filter, Same, column, torch_loader

from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.order import Batching, ExactPlan, Plan, RowPlan

ROWS, SHARDS = 61, 4


class Kept(Same):
    """A transform that declares that it keeps each row."""

    keeps_rows = True


TRANSFORMS = {
    "none": None,
    "kept": Kept(),
    "same": Same(),
    "odd": Filter(lambda number: number % 2 == 1),
}


@dataclass(frozen=True)
class Case:
    """The arguments of a loader on each rank."""

    order: str
    transform: str
    ranks: int
    epochs: int
    batch: int
    drop_last: bool

    def loader(self, numbers: Dataset, rank: int) -> StreamingDataLoader[Any]:
        options: dict[str, Any] = {"batch_size": self.batch, "shuffle": True, "shuffle_seed": 3}
        if self.order == "exact":
            options = {"order": ExactOrder(3, True, True, rank=rank, world_size=self.ranks)}
        else:
            options["world"] = rank, self.ranks
        options |= {"num_epochs": self.epochs, "transform": TRANSFORMS[self.transform]}
        dataset = StreamingDataset(local=numbers.url, **options)
        return StreamingDataLoader(dataset, self.batch, drop_last=self.drop_last)

    @property
    def has_length(self) -> bool:
        """Whether the number of batches does not depend on the rows that a transform returns."""
        return self.transform in ("none", "kept") or (self.transform == "same" and self.ranks > 1)

    @property
    def num_full(self) -> int:
        """Number of batches at the beginning that are full, in the exact order.

        If fewer samples than ranks would remain after the last full batch, ranks halve it.
        """
        full, left = divmod(self.epochs * ROWS, self.ranks * self.batch)
        is_halved = 0 < left < self.ranks and self.batch > 1 and not self.drop_last
        return full - is_halved


#: Of the 31 rows of the longer of two ranks, batches of 1 and 31 leave none in a pass, and batches
#: of 5 leave other numbers in one and three epochs.
SIZES: dict[str, Any] = {"ranks": (1, 2, 3), "epochs": (1, 3), "batch": (1, 5, 31)}
ALL_SIZES = [dict(zip(SIZES, given, strict=True)) for given in product(*SIZES.values())]
#: Three ranks have one batch size, because their loaders take longest.
SETTINGS = [sizes for sizes in ALL_SIZES if sizes["ranks"] < 3 or sizes["batch"] == 5]
KINDS = [*product(["exact"], TRANSFORMS), ("elastic", "none"), ("elastic", "kept")]


@pytest.mark.matrix
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("order", "transform"), KINDS)
def test_length_and_statistics_equal_counted_batches_and_rows(
    order: str, transform: str, drop_last: bool, numbers: Dataset
) -> None:
    wanted = range(1, ROWS, 2) if transform == "odd" else range(ROWS)
    for sizes in SETTINGS:
        case = Case(order, transform, drop_last=drop_last, **sizes)
        loaders = [case.loader(numbers, rank) for rank in range(case.ranks)]
        found = [column(loader) for loader in loaders]
        for loader, batches in zip(loaders, found, strict=True):
            statistics, rows = loader.statistics(), sum(map(len, batches))
            assert (statistics.batches, statistics.rows) == (len(batches), rows), case
            if case.epochs == 1 and transform in ("none", "kept") and not drop_last:
                assert len(loader.dataset) == rows, case
            if case.has_length:
                assert [len(loader)] == list({*map(len, found)}), case
            else:
                with pytest.raises(TypeError, match="number of batches is not known"):
                    len(loader)
            if order == "exact" and transform in ("none", "kept"):
                assert {*map(len, batches[: case.num_full])} <= {case.batch}, case
        read = Counter(row for batches in found for batch in batches for row in batch)
        if order == "elastic":  # which repeats rows so that ranks have equally many
            assert {*read} == {*wanted} or drop_last, case
        elif drop_last:
            assert not read - Counter([*wanted] * case.epochs), case
        else:
            assert read == Counter([*wanted] * case.epochs), case


@pytest.mark.parametrize(("order", "transform"), KINDS)
def test_state_has_the_remaining_batches(order: str, transform: str, numbers: Dataset) -> None:
    for drop_last in (False, True):
        case = Case(order, transform, ranks=2, epochs=3, batch=5, drop_last=drop_last)
        loader = case.loader(numbers, 0)
        whole, states = [], []
        for batch in loader:
            whole.append(batch["number"].tolist())
            states.append(loader.state_dict())
            if order == "exact":
                assert loader.num_samples_yielded == sum(map(len, whole)), case
        for taken in (1, len(whole) // 2, len(whole) - 1):
            other = case.loader(numbers, 0)
            other.load_state_dict(states[taken - 1])
            assert column(other) == whole[taken:], (case, taken)
        other.load_state_dict(states[-1])
        assert len(column(other)) == len(whole) or transform == "odd"


def plans() -> list[Plan]:
    bounds = np.array([0, 20, 40, ROWS])
    found: list[Plan] = []
    for sizes, drop_last in product(SETTINGS, (False, True)):
        batching = Batching(sizes["batch"], drop_last=drop_last, num_epochs=sizes["epochs"])
        for rank in range(sizes["ranks"]):
            order = ExactOrder(1, rank=rank, world_size=sizes["ranks"])
            found.append(ExactPlan(order, bounds, batching=batching))
            found.append(RowPlan(order, bounds, batching=batching._replace(cut="as stored")))
    return found


def test_only_the_last_batch_of_a_plan_is_its_end() -> None:
    for plan in plans():
        count = plan.num_batches()
        assert count is not None
        offsets = [plan.offset_after(batches) for batches in range(1, count + 1)]
        positions = [plan.position(offset) for offset in offsets if offset is not None]
        assert [position.is_end for position in positions] == [
            n == count for n in range(1, count + 1)
        ]
        left = [replace(plan, start=position).num_batches() for position in positions]
        assert left == list(range(count))[::-1]
        assert plan.offset_after(count + 1) is None


@pytest.mark.parametrize(("num_epochs", "kept"), [(3, [2, 3, 4]), (None, [2, 4])])
def test_set_epoch_keeps_position_of_pass_with_that_epoch(
    num_epochs: int | None, kept: list[int], numbers: Dataset
) -> None:
    """An endless pass has its first epoch and the current one."""
    loader, other = (torch_loader(numbers, num_epochs=num_epochs, batch_size=10) for _ in range(2))
    loader.set_epoch(2)
    for _ in islice(loader, 14):
        state = loader.state_dict()
    assert state["epoch"] == 4

    def keeps(epoch: int) -> bool:
        other.load_state_dict(state)
        other.set_epoch(epoch)
        return bool(other.state_dict() == state)

    assert [epoch for epoch in range(7) if keeps(epoch)] == kept
