"""`decimal_friendly_collate`, as Petastorm has it."""

from collections import namedtuple
from decimal import Decimal

import numpy as np
import pytest
import torch

from mdstorm.pytorch import decimal_friendly_collate

Point = namedtuple("Point", ["x", "y"])


def test_mappings_are_collated_by_key() -> None:
    batch = decimal_friendly_collate(
        [
            {"d": Decimal("1.5"), "i": 1, "s": "x", "t": (1, 2), "b": b"\0"},
            {"d": Decimal("2.5"), "i": 2, "s": "z", "t": (3, 4), "b": b"1"},
        ]
    )
    assert batch["d"] == [Decimal("1.5"), Decimal("2.5")]
    assert torch.equal(batch["i"], torch.tensor([1, 2]))
    assert batch["s"] == ["x", "z"]
    assert batch["b"] == [b"\0", b"1"]
    assert [column.tolist() for column in batch["t"]] == [[1, 3], [2, 4]]


def test_sequences_are_collated_by_position() -> None:
    x, y = decimal_friendly_collate([Point(1, "a"), Point(2, "b")])
    assert (x.tolist(), list(y)) == ([1, 2], ["a", "b"])


def test_anything_else_is_collated_by_torch() -> None:
    assert torch.equal(
        decimal_friendly_collate([np.ones(2), np.zeros(2)]),
        torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64),
    )
    assert decimal_friendly_collate([np.float32(1.5)]).dtype == torch.float32
    with pytest.raises(TypeError):
        decimal_friendly_collate([{"n": None}])


def test_the_first_sample_decides() -> None:
    assert decimal_friendly_collate([{}]) == {}
    with pytest.raises(IndexError):
        decimal_friendly_collate([])
