"""Pack tensors into one buffer, to move them together.

A batch of a table has many small tensors. Moving each of them to another process, or to a GPU,
takes much longer than copying their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import torch

#: Each tensor begins at a multiple of this many bytes, as vectorised GPU kernels require.
_ALIGNMENT = 16


class PackedTensors(NamedTuple):
    """The bytes of tensors, with their dtypes and shapes.

    Attributes
    ----------
    memory : torch.Tensor or None
        The bytes, as a uint8 tensor; None if there are no tensors. Tensors of the same dtype are
        packed one after another.
    dtypes : list of torch.dtype
        The dtype of each tensor.
    shapes : list of sequence of int
        The shape of each tensor.
    """

    memory: torch.Tensor | None
    dtypes: list[torch.dtype]
    shapes: list[Sequence[int]]


def pack(tensors: Sequence[torch.Tensor], allocate: Callable[[int], torch.Tensor]) -> PackedTensors:
    """Copy dense CPU tensors into one buffer.

    Parameters
    ----------
    tensors : sequence of torch.Tensor
        Tensors of any dtypes and shapes.
    allocate : callable
        Returns a new uint8 tensor with a given number of bytes.
    """
    packed = PackedTensors(None, [one.dtype for one in tensors], [one.shape for one in tensors])
    if not tensors:
        return packed
    layout = _layout(packed)
    memory = allocate(sum(_sizes(layout)))
    for values, (dtype, lengths) in zip(_values(memory, layout), layout.items(), strict=True):
        parts = []
        for number, length in lengths.items():
            tensor = tensors[number]
            parts.append(tensor if tensor.ndim == 1 else tensor.reshape(-1))
            if gap := length - tensor.numel():
                parts.append(torch.zeros(gap, dtype=dtype))
        torch.cat(parts, out=values)
    return packed._replace(memory=memory)


def unpack(packed: PackedTensors) -> list[torch.Tensor]:
    """Return the tensors passed to `pack`, as views of the buffer."""
    if packed.memory is None:
        return []
    found: dict[int, torch.Tensor] = {}
    layout = _layout(packed)
    for values, lengths in zip(_values(packed.memory, layout), layout.values(), strict=True):
        # Autograd treats these views as independent tensors: see `split_values`.
        parts = torch.unsafe_split_with_sizes(values, list(lengths.values()))
        for number, part in zip(lengths, parts, strict=True):
            shape = packed.shapes[number]
            length = math.prod(shape)
            part = part if part.numel() == length else part[:length]
            found[number] = part if len(shape) == 1 else part.view(shape)
    return [found[number] for number in range(len(found))]


def _layout(packed: PackedTensors) -> dict[torch.dtype, dict[int, int]]:
    """Return, for each dtype, which tensors have it, and their lengths with the gaps after them."""
    found: dict[torch.dtype, dict[int, int]] = {}
    for number, (dtype, shape) in enumerate(zip(packed.dtypes, packed.shapes, strict=True)):
        length = math.prod(shape)
        gap = -length % (_ALIGNMENT // _item_size(dtype))
        found.setdefault(dtype, {})[number] = length + gap
    return found


def _sizes(layout: dict[torch.dtype, dict[int, int]]) -> list[int]:
    """Return how many bytes the tensors of each dtype take."""
    return [sum(lengths.values()) * _item_size(dtype) for dtype, lengths in layout.items()]


@cache
def _item_size(dtype: torch.dtype) -> int:
    """Return a dtype's bytes per value, as its ``itemsize`` in PyTorch 2.1 and later."""
    return torch.empty(0, dtype=dtype).element_size()


def _values(memory: torch.Tensor, layout: dict[torch.dtype, dict[int, int]]) -> list[torch.Tensor]:
    """Return each dtype's part of the buffer, as a one-dimensional tensor of that dtype."""
    pieces = torch.split_with_sizes(memory, _sizes(layout))
    return [piece.view(dtype) for piece, dtype in zip(pieces, layout, strict=True)]
