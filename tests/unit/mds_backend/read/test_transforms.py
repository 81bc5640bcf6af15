"""Functions on a shard's rows, which may change the number of rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.kit.small_datasets import write_numbers
from tests.unit.mds_backend.read.readers import IN_ORDER, OnNumbers, flat, pieces, values

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.plan import Batching
from mdstorm_backend.order.row_plan import RowPlan
from mdstorm_backend.read import refill

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "even": lambda numbers: numbers[numbers % 2 == 0],
    "twice": lambda numbers: np.repeat(numbers, 2),
    "backwards": lambda numbers: numbers[::-1],
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Thirty numbers in six shards."""
    return write_numbers(tmp_path_factory.mktemp("numbers"), 30, tasks=6)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_are_cut_from_transform_results(dataset: Dataset, name: str, workers: int) -> None:
    transform = OnNumbers(FUNCTIONS[name])
    found = values(pieces(dataset, transform=transform, workers=workers))
    shards = np.arange(30).reshape(6, 5)
    expected = np.concatenate([FUNCTIONS[name](shard) for shard in shards])
    assert [n for batch in found for n in batch] == expected.tolist()
    assert all(len(batch) == 4 for batch in found[:-1])


@pytest.mark.parametrize("name", ["even", "twice"])
@pytest.mark.parametrize(
    "order",
    [
        IN_ORDER,
        ExactOrder(seed=1, shuffle_shards=True, rank=1, world_size=4),
        ExactOrder(seed=1, shuffle_rows=True),
        ExactOrder(seed=1, shuffle_shards=True, window=8),
    ],
)
def test_transforming_shard_slices_yields_the_same_rows_as_whole_shards(
    dataset: Dataset, order: ExactOrder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refill, "SLICE_BYTES", -(-2 * dataset.nbytes // len(dataset)))
    transform = OnNumbers(FUNCTIONS[name])
    sliced = values(pieces(dataset, order, transform=transform, slices=True))
    assert max(transform.calls) == 2
    assert sliced == values(pieces(dataset, order, transform=OnNumbers(FUNCTIONS[name])))


def test_transform_is_called_per_shard_with_only_the_ranks_rows(
    dataset: Dataset,
) -> None:
    transform = OnNumbers(lambda n: n)
    order = ExactOrder(rank=0, world_size=4)
    assert flat(pieces(dataset, order, transform=transform)) == list(range(8))
    assert sorted(transform.calls) == [3, 5]


@pytest.mark.parametrize("num_epochs", [1, 3, None])
def test_transform_that_drops_all_rows_ends_the_pass_with_a_warning(
    dataset: Dataset, num_epochs: int | None
) -> None:
    nothing = OnNumbers(lambda numbers: numbers[:0])
    with pytest.warns(UserWarning, match="No matching data is available"):
        assert not list(pieces(dataset, transform=nothing, num_epochs=num_epochs))


@pytest.mark.parametrize("window", [0, 12])
@pytest.mark.parametrize("name", ["even", "twice"])
def test_pass_from_a_position_yields_the_remaining_batches(
    dataset: Dataset, name: str, window: int
) -> None:
    order = ExactOrder(seed=4, shuffle_shards=True, shuffle_rows=True, window=window)
    options = {"num_epochs": 2, "transform": OnNumbers(FUNCTIONS[name]), "block_rows": 1}

    def read(**where: Any) -> list[tuple[int, Any]]:
        blocks = pieces(dataset, order, **options, **where)
        return [
            (offset, batch)
            for b in blocks
            for offset, batch in zip(b.offsets, values([b]), strict=True)
        ]

    batching = Batching(4, "as returned", num_epochs=2)
    plan = RowPlan(order, dataset.bounds, batching=batching)
    whole = read()
    for done, (offset, _) in enumerate(whole, 1):
        assert read(start=plan.position(offset)) == whole[done:]
    for part in range(3):
        assert read(part=(part, 3)) == whole[part::3]


@pytest.mark.parametrize(("window", "shards"), [(0, 1), (9, 2), (10, 2), (11, 3), (99, 6)])
def test_windows_have_the_fewest_whole_shards_with_enough_rows(
    dataset: Dataset, window: int, shards: int
) -> None:
    """Each of the six shards has five rows."""
    order = ExactOrder(seed=1, shuffle_shards=True, shuffle_rows=True, window=window)
    found = np.array(flat(pieces(dataset, order, transform=OnNumbers(lambda numbers: numbers))))
    for rows in found.reshape(-1, 5 * shards):
        assert sorted(rows) == sorted(n for s in {*rows // 5} for n in range(5 * s, 5 * s + 5))
    assert found.reshape(-1, 5).tolist() != np.sort(found.reshape(-1, 5), axis=1).tolist()


def test_transform_may_modify_its_input(dataset: Dataset) -> None:
    def overwrite(numbers: Any) -> Any:
        numbers += 100
        return numbers

    for _ in range(2):
        assert flat(pieces(dataset, transform=OnNumbers(overwrite))) == list(range(100, 130))
