"""Rows of a batch, repeated."""

from typing import NamedTuple

import torch

from mdstorm_backend.loaders.torch.device_batches import repeated_rows


class Pair(NamedTuple):
    x: torch.Tensor
    y: list[str]


def test_columns_of_any_kind_are_repeated() -> None:
    batch = {"number": torch.tensor([1, 2]), "matrix": torch.eye(2), "text": ["a", "b"]}

    longer = repeated_rows(batch, 2, 5)

    assert longer["number"].tolist() == [1, 2, 1, 2, 1]
    assert longer["matrix"].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1], [1, 0]]
    assert longer["text"] == ["a", "b", "a", "b", "a"]


def test_structures_stay_what_they_are() -> None:
    pair = repeated_rows(Pair(torch.tensor([1, 2]), ["a", "b"]), 2, 3)
    columns = repeated_rows([torch.tensor([1, 2]), torch.tensor([3, 4])], 2, 3)
    mixed = repeated_rows([["a", "b"], torch.tensor([1, 2])], 2, 3)
    nested = repeated_rows({"x": [torch.tensor([1, 2]), torch.tensor([3, 4])]}, 2, 3)
    other = repeated_rows({"scale": torch.tensor(2.0), "name": "batch", "x": (1, 2)}, 2, 3)

    assert isinstance(pair, Pair)
    assert (pair.x.tolist(), pair.y) == ([1, 2, 1], ["a", "b", "a"])
    assert [column.tolist() for column in columns] == [[1, 2, 1], [3, 4, 3]]
    assert (mixed[0], mixed[1].tolist()) == (["a", "b", "a"], [1, 2, 1])
    assert [column.tolist() for column in nested["x"]] == [[1, 2, 1], [3, 4, 3]]
    assert (other["scale"], other["name"], other["x"]) == (torch.tensor(2.0), "batch", (1, 2, 1))
