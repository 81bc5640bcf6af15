"""Pack tensors into one piece of memory, to move them together.

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
    """Tensors with the same dtype, in the order of their bytes.

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
    """The bytes of tensors, and what is needed to make tensors of them again.

    Attributes
    ----------
    memory : torch.Tensor or None
        The bytes, as a uint8 tensor; None if there are no tensors.
    groups : list of DtypeGroup
        The groups, in the order of their bytes.
    """

    memory: torch.Tensor | None
    groups: list[DtypeGroup]


def pack(tensors: Sequence[torch.Tensor], allocate: Callable[[int], torch.Tensor]) -> PackedTensors:
    """Copy dense CPU tensors into one piece of memory.

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
    memory = allocate(sum(group.nbytes for group in groups))
    begin = 0
    for group, parts in zip(groups, pieces, strict=True):
        end = begin + group.nbytes
        torch.cat(parts, out=memory[begin:end].view(group.dtype))
        begin = end
    return PackedTensors(memory, groups)


def unpack(packed: PackedTensors) -> list[torch.Tensor]:
    """Return the tensors passed to `pack`, as views that share one piece of memory."""
    found: dict[int, torch.Tensor] = {}
    begin = 0
    for dtype, nbytes, numbers, shapes in packed.groups:
        assert packed.memory is not None
        end = begin + nbytes
        values = packed.memory[begin:end].view(dtype)
        begin = end
        lengths = list(map(math.prod, shapes))
        size = values.element_size()
        aligned = [length + _gap(length, size) for length in lengths]
        # Autograd treats these views as independent tensors: see `split_values`.
        parts = torch.unsafe_split_with_sizes(values, aligned)
        for number, part, length, shape in zip(numbers, parts, lengths, shapes, strict=True):
            part = part if part.numel() == length else part[:length]
            found[number] = part if len(shape) == 1 else part.view(shape)
    return [found[number] for number in range(len(found))]


def _gap(length: int, size: int) -> int:
    """Return how many values of `size` bytes follow `length` values to align the next tensor."""
    return -length % (_ALIGNMENT // size)
