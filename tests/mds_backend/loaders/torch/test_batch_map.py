"""`batch_map`: what the model takes, made of each batch."""

from itertools import islice
from typing import Any

import pytest
import torch
from tests.mds_backend.loaders.loaders import Negative, Own, in_either_order
from tests.mds_backend.small_datasets import write_dataset

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import ArgumentTypeError

ROWS = 103


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    columns = {"number": list(range(ROWS)), "text": ["x"] * ROWS}
    fields = {"number": "long", "text": "string"}
    return write_dataset(tmp_path_factory.mktemp("data") / "data", columns, fields).url


def pair(batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.stack([batch["number"], 2 * batch["number"]], 1), batch["number"]


def loader_of(
    url: str, order: str = "elastic", kind: type = StreamingDataset, **options: Any
) -> StreamingDataLoader:
    exact = {"order": ExactOrder(3, shuffle_rows=True)}
    given = exact if order == "exact" else {"shuffle": True, "batch_size": 8}
    return StreamingDataLoader(kind(local=url, **given), 8, **options)


def values(batches: Any) -> list[tuple[list[Any], list[Any]]]:
    return [(x.tolist(), y.tolist()) for x, y in batches]


@in_either_order
@pytest.mark.parametrize("num_workers", [0, 2])
def test_each_batch_goes_through_the_map_and_nothing_else_changes(
    url: str, order: str, num_workers: int
) -> None:
    plain = loader_of(url, order, num_workers=num_workers)
    loader = loader_of(url, order, num_workers=num_workers, batch_map=pair)
    assert len(loader) == len(plain)
    expected = values(map(pair, plain))
    iterator = iter(loader)
    assert values(islice(iterator, 5)) == expected[:5]
    assert loader.num_samples_yielded == 40
    again = loader_of(url, order, num_workers=num_workers, batch_map=pair)
    again.load_state_dict(loader.state_dict())
    assert values(again) == expected[5:]


@pytest.mark.parametrize("persistent", [False, True])
def test_it_is_called_in_the_worker_processes(url: str, persistent: bool) -> None:
    def where(batch: Any) -> Any:
        info = torch.utils.data.get_worker_info()
        return None if info is None else info.id

    loader = loader_of(url, batch_map=where, num_workers=2, persistent_workers=persistent)
    assert set(loader) == {0, 1}
    loader.close()
    assert set(loader_of(url, batch_map=where)) == {None}


@pytest.mark.parametrize("kind", [StreamingDataset, Own])
def test_a_lambda_is_refused_where_processes_are_spawned(url: str, kind: type) -> None:
    loader = loader_of(
        url,
        kind=kind,
        batch_map=lambda batch: batch["number"],
        num_workers=1,
        multiprocessing_context="spawn",
    )
    with pytest.raises(ArgumentTypeError, match=r"'spawn'.*at the top level of a module"):
        iter(loader)


@pytest.mark.long
def test_a_function_of_a_module_is_sent_to_spawned_processes(url: str) -> None:
    loader = loader_of(url, batch_map=pair, num_workers=1, multiprocessing_context="spawn")
    assert values(loader) == values(loader_of(url, batch_map=pair))


@pytest.mark.parametrize("kind", [Negative, Own])
def test_the_batches_of_samples_go_through_it_as_well(url: str, kind: type) -> None:
    sign = -1 if kind is Negative else 1
    plain = values(loader_of(url, batch_map=pair)) if kind is Negative else None
    found = values(loader_of(url, kind=kind, batch_map=pair))
    expected = plain or values(map(pair, loader_of(url, kind=StreamingDataset)))
    assert found == [
        ([[sign * n for n in row] for row in x], [sign * n for n in y]) for x, y in expected
    ]


def test_an_error_of_the_map_is_raised_and_its_batch_is_not_counted(url: str) -> None:
    seen = []

    def third(batch: Any) -> Any:
        seen.append(batch)
        if len(seen) == 3:
            raise RuntimeError("third")
        return batch["number"]

    loader = loader_of(url, batch_map=third)
    with pytest.raises(RuntimeError, match="third"):
        list(loader)
    assert loader.num_samples_yielded == 16
