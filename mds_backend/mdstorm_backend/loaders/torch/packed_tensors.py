"""Pack tensors, alone or within batches, into one buffer to move them together.

A batch of a table has many small tensors. Moving each of them to another process, or to a GPU,
takes much longer than copying their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import torch

#: Each tensor begins at a multiple of this many bytes, as vectorised GPU kernels require.
_ALIGNMENT = 16
#: Tensors of at least this many bytes are sent to another process on their own.
_LARGE = 1 << 20


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
    tensors: dict[int, torch.Tensor] = {}
    layout = _layout(packed)
    for values, lengths in zip(_values(packed.memory, layout), layout.values(), strict=True):
        # Autograd treats these views as independent tensors: see `split_values`.
        parts = torch.unsafe_split_with_sizes(values, list(lengths.values()))
        for number, part in zip(lengths, parts, strict=True):
            shape = packed.shapes[number]
            length = math.prod(shape)
            part = part if part.numel() == length else part[:length]
            tensors[number] = part if len(shape) == 1 else part.view(shape)
    return [tensors[number] for number in range(len(tensors))]


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


class _Slot(NamedTuple):
    """A placeholder for a packed tensor."""

    number: int


class _Tuple(NamedTuple):
    """A tuple, held as a dict because PyTorch turns tuples into lists when it pins them."""

    parts: dict[int, Any]


def pack_batches(batches: list[Any]) -> tuple[PackedTensors, list[Any]]:
    """Return batches in a form that is cheaper to send; the receiver calls `unpack_batches`.

    It consists of the small tensors, and of the batches with slots in place of these tensors.
    PyTorch would send each tensor as a separate file that two processes open and map.
    """
    small: list[torch.Tensor] = []
    rest = [_without_small(batch, small) for batch in batches]
    return pack(small, partial(torch.empty, dtype=torch.uint8)), rest


def unpack_batches(sent: Sequence[Any]) -> list[Any]:
    """Return the batches passed to `pack_batches`, whose small tensors now share one buffer."""
    small, rest = sent
    tensors = unpack(small)
    return [_with_small(batch, tensors) for batch in rest]


# These functions are not nested in their callers: a nested function that calls itself is a
# reference cycle, which would keep the tensors until Python's garbage collector runs. In a forked
# process, the collector would free pinned memory, which ends the process.


def _without_small(value: Any, small: list[torch.Tensor]) -> Any:
    """Return a batch with slots in place of its small tensors, which are appended to `small`."""
    if type(value) is dict:
        return {name: _without_small(one, small) for name, one in value.items()}
    if type(value) is tuple:
        return _Tuple({i: _without_small(one, small) for i, one in enumerate(value)})
    if is_plain(value) and value.nbytes < _LARGE:
        small.append(value)
        return _Slot(len(small) - 1)
    return value.clone() if _is_part(value) else value


def _with_small(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Return a batch with tensors in place of its slots."""
    if type(value) is dict:
        return {name: _with_small(one, tensors) for name, one in value.items()}
    if isinstance(value, _Tuple):
        return tuple(_with_small(one, tensors) for one in value.parts.values())
    return tensors[value.number] if isinstance(value, _Slot) else value


def is_plain(value: Any) -> bool:
    """Whether a value is a dense CPU tensor that its bytes, dtype and shape fully describe."""
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and not value.requires_grad
        and not value.is_nested
        and not value.is_conj()
        and not value.is_neg()
    )


def _is_part(value: Any) -> bool:
    """Whether a value is part of a larger tensor, all of which PyTorch would send."""
    return is_plain(value) and value.untyped_storage().nbytes() > value.nbytes
