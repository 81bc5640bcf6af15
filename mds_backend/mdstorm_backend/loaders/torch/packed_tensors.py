"""Pack tensors into one buffer, to move them together.

A batch of a table has many small tensors. Moving each of them to another process, or to a GPU,
takes much longer than copying their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

#: Each tensor begins at a multiple of this many bytes, as vectorised GPU kernels require.
_ALIGNMENT = 16


class DtypeGroup(NamedTuple):
    """Tensors with the same dtype, in the order in which they are packed.

    Attributes
    ----------
    nbytes : int
        Number of bytes in memory, including the gaps after tensors.
    numbers : list of int
        Which of the packed tensors these are.
    """

    dtype: torch.dtype
    nbytes: int
    numbers: list[int]
    shapes: list[Sequence[int]]


class PackedTensors(NamedTuple):
    """The bytes of tensors, with their dtypes and shapes.

    Attributes
    ----------
    memory : torch.Tensor or None
        The bytes, as a uint8 tensor; None if there are no tensors.
    groups : list of DtypeGroup
        The groups, in the order in which they are packed.
    """

    memory: torch.Tensor | None
    groups: list[DtypeGroup]


def pack(tensors: Sequence[torch.Tensor], allocate: Callable[[int], torch.Tensor]) -> PackedTensors:
    """Copy dense CPU tensors into one buffer.

    Parameters
    ----------
    tensors : sequence of torch.Tensor
        Tensors of any dtypes and shapes.
    allocate : callable
        Returns a new uint8 tensor with a given number of bytes.
    """
    alike: dict[torch.dtype, list[int]] = {}
    for number, tensor in enumerate(tensors):
        alike.setdefault(tensor.dtype, []).append(number)
    groups, pieces = [], []
    for dtype, numbers in alike.items():
        size = tensors[numbers[0]].element_size()
        parts = []
        length = 0
        for number in numbers:
            tensor = tensors[number]
            parts.append(tensor if tensor.ndim == 1 else tensor.reshape(-1))
            if gap := _gap(tensor.numel(), size):
                parts.append(torch.zeros(gap, dtype=dtype))
            length += tensor.numel() + gap
        pieces.append(parts)
        shapes: list[Sequence[int]] = [tensors[number].shape for number in numbers]
        groups.append(DtypeGroup(dtype, length * size, numbers, shapes))
    if not groups:
        return PackedTensors(None, groups)
    packed = PackedTensors(allocate(sum(group.nbytes for group in groups)), groups)
    for values, parts in zip(_values(packed), pieces, strict=True):
        torch.cat(parts, out=values)
    return packed


def unpack(packed: PackedTensors) -> list[torch.Tensor]:
    """Return the tensors passed to `pack`, as views of the buffer."""
    found: dict[int, torch.Tensor] = {}
    for values, group in zip(_values(packed), packed.groups, strict=True):
        lengths = list(map(math.prod, group.shapes))
        size = values.element_size()
        aligned = [length + _gap(length, size) for length in lengths]
        # Autograd treats these views as independent tensors: see `split_values`.
        parts = torch.unsafe_split_with_sizes(values, aligned)
        for number, part, length, shape in zip(
            group.numbers, parts, lengths, group.shapes, strict=True
        ):
            part = part if part.numel() == length else part[:length]
            found[number] = part if len(shape) == 1 else part.view(shape)
    return [found[number] for number in range(len(found))]


def _values(packed: PackedTensors) -> list[torch.Tensor]:
    """Return each group's part of the buffer, as a one-dimensional tensor of its dtype."""
    if packed.memory is None:
        return []
    pieces = torch.split_with_sizes(packed.memory, [group.nbytes for group in packed.groups])
    return [piece.view(group.dtype) for piece, group in zip(pieces, packed.groups, strict=True)]


def _gap(length: int, size: int) -> int:
    """Return how many values of padding, of `size` bytes each, must follow `length` values."""
    return -length % (_ALIGNMENT // size)
