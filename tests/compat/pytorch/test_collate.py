"""`decimal_friendly_collate`, as Petastorm has it."""

from collections import namedtuple

import numpy as np
import torch

from mdstorm.pytorch import decimal_friendly_collate

Point = namedtuple("Point", ["x", "y"])


def test_sequences_are_collated_by_position() -> None:
    x, y = decimal_friendly_collate([Point(1, "a"), Point(2, "b")])
    assert (x.tolist(), list(y)) == ([1, 2], ["a", "b"])


def test_anything_else_is_collated_by_torch() -> None:
    assert torch.equal(
        decimal_friendly_collate([np.ones(2), np.zeros(2)]),
        torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64),
    )
    assert decimal_friendly_collate([np.float32(1.5)]).dtype == torch.float32
