"""Move batches: between processes, into pinned memory, and to a device.

Copies to a device run on a separate stream while previous batches are in use. Three things make
this safe:

- The source is pinned memory, which PyTorch keeps until the copy is complete.
- An event is recorded after the copies, and the stream that uses the batch waits for it.
- A copy's memory belongs to the copying stream. `record_stream` marks it as used by the other
  stream, so that it is not reused too early for a later batch.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import torch
from torch.utils.data._utils.pin_memory import pin_memory

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.loaders import NumberedBatches

#: Number of batches being copied, in addition to the one in use.
_AHEAD = 1
#: Tensors of at least this many bytes are sent to another process on their own.
_LARGE = 1 << 20


def check_device(device: torch.device | str | int | None) -> torch.device | None:
    """Return the device that an argument specifies; None for None and the CPU.

    Raises
    ------
    ArgumentTypeError
        If the argument does not specify a device.
    """
    if device is None:
        return None
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentTypeError(
            f"device must be a PyTorch device, such as 'cuda' or 'cuda:1', found {device!r}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return None if found.type == "cpu" else found


def on_device(batches: NumberedBatches, device: torch.device) -> NumberedBatches:
    """Return the batches with their tensors copied to a device.

    Tensors are copied from any depth of dicts, lists and tuples; other values stay as they are.

    Parameters
    ----------
    batches : generator
        Batches with their offsets and sizes. The generator is closed at the end.
    device : torch.device
        The target device; not the CPU.

    Raises
    ------
    InvalidArgumentError
        If PyTorch cannot find the device.
    """
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidArgumentError(
            f"device={str(device)!r}: PyTorch {torch.__version__} finds no CUDA device here. Leave "
            "device out, or install PyTorch for CUDA on a machine with a GPU"
        )
    module = getattr(torch, device.type, None)
    if not hasattr(module, "Stream"):  # such as Apple's MPS
        return _copied(batches, device)
    index = module.current_device() if device.index is None else device.index
    return _copied_ahead(batches, torch.device(device.type, index), module)


def _copied(batches: NumberedBatches, device: torch.device) -> NumberedBatches:
    with closing(batches):
        for batch, offset, size in batches:
            yield map_tensors(lambda tensor: tensor.to(device), batch), offset, size


def _copied_ahead(batches: NumberedBatches, device: torch.device, module: Any) -> NumberedBatches:
    """Copy each batch while the previous one is in use, as the module docstring describes.

    A batch that is being copied does not count as yielded until it is yielded. `module` is
    ``torch.cuda`` or the module of another accelerator.
    """
    stream = module.Stream(device)
    waiting: deque[tuple[Any, list[torch.Tensor], Any, int, int]] = deque()
    with closing(batches):
        for batch, offset, size in batches:
            copies: list[torch.Tensor] = []

            def copied(tensor: torch.Tensor, copies: list[torch.Tensor] = copies) -> torch.Tensor:
                copies.append(_copy(tensor, device))
                return copies[-1]

            with module.stream(stream):
                moved = map_tensors(copied, batch)
                event = stream.record_event()
            waiting.append((moved, copies, event, offset, size))
            if len(waiting) > _AHEAD:
                yield _ready(*waiting.popleft(), module.current_stream(device))
        while waiting:
            yield _ready(*waiting.popleft(), module.current_stream(device))


def _copy(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Start copying a tensor to a device on the current stream, pinning a CPU tensor first."""
    pinned = tensor.pin_memory() if tensor.device.type == "cpu" else tensor
    return pinned.to(device, non_blocking=True)


def _ready(
    batch: Any, copies: list[torch.Tensor], event: Any, offset: int, size: int, current: Any
) -> tuple[Any, int, int]:
    """Make the computing stream wait for a batch, and mark its memory as used by that stream."""
    current.wait_event(event)
    for tensor in copies:
        tensor.record_stream(current)
    return batch, offset, size


def pinned(batches: NumberedBatches, *, are_dicts: bool) -> NumberedBatches:
    """Copy tensors in batches to pinned memory; `are_dicts` if batches are dicts of columns."""
    with closing(batches):
        for batch, offset, size in batches:
            if are_dicts:  # skip lists, because each of their objects would be visited
                tensors = {name: v for name, v in batch.items() if not isinstance(v, list)}
                batch = {**batch, **pin_memory(tensors)}  # type: ignore[no-untyped-call]
            else:
                batch = pin_memory(batch)  # type: ignore[no-untyped-call]
            yield batch, offset, size


class _Packed(NamedTuple):
    """Batches with slots in place of their small tensors, which share one piece of memory.

    PyTorch would send each tensor as a separate file that two processes open and map. For small
    tensors, that takes far longer than a copy.
    """

    memory: torch.Tensor | None
    #: The groups, in the order of their bytes in `memory`.
    groups: list[_DtypeGroup]
    batches: list[Any]


class _DtypeGroup(NamedTuple):
    """Tensors with the same dtype: their bytes, slot numbers and shapes."""

    dtype: torch.dtype
    nbytes: int
    slots: list[int]
    shapes: list[Sequence[int]]


class _Slot(NamedTuple):
    """A placeholder for a packed tensor."""

    number: int


class _Tuple(NamedTuple):
    """A tuple, held as a dict because PyTorch turns tuples into lists when it pins them."""

    parts: dict[int, Any]


def packed(batches: list[Any]) -> _Packed:
    """Return batches in a form that is cheaper to send; the receiver calls `unpacked`."""
    found: list[torch.Tensor] = []

    def emptied(value: Any) -> Any:
        if type(value) is dict:
            return {name: emptied(one) for name, one in value.items()}
        if type(value) is tuple:
            return _Tuple(dict(enumerate(map(emptied, value))))
        if _is_small(value):
            found.append(value)
            return _Slot(len(found) - 1)
        return value.clone() if _is_part(value) else value

    rest = list(map(emptied, batches))
    alike: dict[torch.dtype, list[int]] = {}
    for slot, tensor in enumerate(found):
        alike.setdefault(tensor.dtype, []).append(slot)
    groups, joined = [], []
    # The largest element size comes first, so that every tensor is aligned for its dtype.
    for dtype, slots in sorted(alike.items(), key=lambda one: -found[one[1][0]].element_size()):
        joined.append(torch.cat([found[slot].reshape(-1) for slot in slots]).view(torch.uint8))
        groups.append(
            _DtypeGroup(dtype, len(joined[-1]), slots, [found[slot].shape for slot in slots])
        )
    memory = torch.cat(joined) if len(joined) > 1 else joined[0] if joined else None
    return _Packed(memory, groups, rest)


def _is_small(value: Any) -> bool:
    return _is_plain(value) and value.nbytes < _LARGE


def _is_plain(value: Any) -> bool:
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and not value.requires_grad
    )


def _is_part(value: Any) -> bool:
    """Whether a value is part of a larger tensor, all of which PyTorch would send."""
    return _is_plain(value) and value.untyped_storage().nbytes() > value.nbytes


def unpacked(sent: _Packed) -> list[Any]:
    """Return the batches passed to `packed`, whose small tensors now share one piece of memory."""
    tensors: dict[int, torch.Tensor] = {}
    begin = 0
    for dtype, nbytes, slots, shapes in sent.groups:
        assert sent.memory is not None
        values = sent.memory[begin : begin + nbytes].view(dtype)
        begin += nbytes
        # Autograd treats these views as independent tensors: see `split_values`.
        parts = torch.unsafe_split_with_sizes(values, list(map(math.prod, shapes)))
        for slot, part, shape in zip(slots, parts, shapes, strict=True):
            tensors[slot] = part if len(shape) == 1 else part.view(shape)

    def filled(value: Any) -> Any:
        if type(value) is dict:
            return {name: filled(one) for name, one in value.items()}
        if isinstance(value, _Tuple):
            return tuple(map(filled, value.parts.values()))
        return tensors[value.number] if isinstance(value, _Slot) else value

    return list(map(filled, sent.batches))


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], batch: Any) -> Any:
    """Apply `function` to each tensor in a batch, in dicts, lists and tuples of any depth.

    Parts without tensors are returned as the same objects.
    """
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        values = {name: map_tensors(function, value) for name, value in batch.items()}
        if all(values[name] is value for name, value in batch.items()):
            return batch
        return with_values(batch, values)
    if isinstance(batch, (list, tuple)):
        items = [map_tensors(function, item) for item in batch]
        if all(item is old for item, old in zip(items, batch, strict=True)):
            return batch
        if isinstance(batch, tuple):
            is_named = hasattr(batch, "_fields")
            return type(batch)(*items) if is_named else tuple(items)
        return items
    return batch


def with_values(mapping: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """Return a mapping of the same type with new values; a dict if the type is not mutable."""
    if type(mapping) is dict or not isinstance(mapping, MutableMapping):
        return values
    clone = copy.copy(mapping)
    clone.update(values)
    return clone


def repeated_rows(batch: Any, rows: int, size: int) -> Any:
    """Repeat the rows of a batch cyclically until there are `size` rows.

    Parameters
    ----------
    batch : object
        Columns with `rows` rows: tensors, and lists with an item for each row, within dicts, lists
        and tuples. Anything else is not changed. A list of tensors with `rows` rows is treated as
        several columns rather than one.
    rows : int
        Number of rows in the batch.
    size : int
        Number of rows in the result, which may be more or fewer than in the batch.

    Returns
    -------
    object
        The same structure, with copies of the tensors.
    """
    numbers = torch.arange(size) % rows

    def repeated(values: Any) -> Any:
        if isinstance(values, torch.Tensor):
            return values[numbers.to(values.device)] if _has_rows(values, rows) else values
        if isinstance(values, Mapping):
            return with_values(values, {key: repeated(value) for key, value in values.items()})
        if not isinstance(values, (list, tuple)):
            return values
        if hasattr(values, "_fields"):
            return type(values)(*map(repeated, values))
        if (
            len(values) == rows
            and values is not batch
            and not all(
                isinstance(value, torch.Tensor) and _has_rows(value, rows) for value in values
            )
        ):
            return type(values)(values[number] for number in numbers.tolist())
        return type(values)(map(repeated, values))

    return repeated(batch)


def _has_rows(values: torch.Tensor, rows: int) -> bool:
    return values.ndim > 0 and len(values) == rows
