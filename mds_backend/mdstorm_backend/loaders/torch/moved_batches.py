"""Move batches into pinned memory and to a device.

The copies of `on_device` run on a separate stream while previous batches are in use. Three things
make this safe:

- The source is pinned memory, which PyTorch keeps until the copy is complete.
- An event is recorded after the copies, and the stream that uses the batch waits for it.
- A copy's memory belongs to the copying stream. `record_stream` marks it as used by the other
  stream, so that it is not reused too early for a later batch.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Generator, Mapping, MutableMapping
from contextlib import closing
from typing import Any, TypeAlias

import torch

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.loaders import NumberedBatches
from mdstorm_backend.loaders.torch.packed_tensors import is_plain, pack, unpack

#: A batch, its offset and its size.
NumberedBatch: TypeAlias = tuple[Any, int, int]
#: Number of groups of batches being copied, in addition to the one in use.
_AHEAD = 1
#: Maximum number of batches in a group.
_MOST_TOGETHER = 32
#: Tensors of more bytes than this are pinned on their own. Smaller ones are packed, because moving
#: one takes as long as copying some 100 KiB. However, a packed tensor that a user keeps also keeps
#: the tensors that are packed with it in memory.
_MOST_PACKED = 1 << 15


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


def on_device(
    batches: NumberedBatches, device: torch.device, rows_together: int = 1
) -> NumberedBatches:
    """Return the batches with their tensors copied to a device.

    Tensors are copied from any depth of dicts, lists and tuples; other values stay as they are.

    Parameters
    ----------
    batches : generator
        Batches with their offsets and sizes. The generator is closed at the end.
    device : torch.device
        The target device; not the CPU.
    rows_together : int
        Consecutive batches are copied together until they have this many rows, because starting a
        copy takes longer than copying a small batch.

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
    groups = _grouped(batches, rows_together)
    return _copied_ahead(groups, torch.device(device.type, index), module)


def moved_together(batch: Any, device: torch.device, move: Callable[[Any], Any]) -> Any:
    """Return a batch on a device: `move` copies it, except for columns that are copied together.

    These are the tensors in a dict, if the device is a GPU. Their copies are complete for any work
    that is then submitted to its current stream, but perhaps not when this function returns: the
    tensors must not change until then. Copies of small columns share memory.
    """
    if device.type != "cuda" or type(batch) is not dict:
        return move(batch)
    columns = {name: value for name, value in batch.items() if type(value) is torch.Tensor}
    others = {name: value for name, value in batch.items() if name not in columns}
    copies, _ = _pinned_tensors(columns, lambda tensor: start_copy(tensor, device))
    return {**batch, **move(others), **copies}


def _copied(batches: NumberedBatches, device: torch.device) -> NumberedBatches:
    with closing(batches):
        for batch, offset, size in batches:
            yield map_tensors(lambda tensor: tensor.to(device), batch), offset, size


def _grouped(batches: NumberedBatches, rows: int) -> Generator[list[NumberedBatch], None, None]:
    """Yield lists of consecutive batches, each cut at `rows` rows or `_MOST_TOGETHER` batches."""
    with closing(batches):
        group, total = [], 0
        for one in batches:
            group.append(one)
            total += one[-1]
            if total >= rows or len(group) == _MOST_TOGETHER:
                yield group
                group, total = [], 0
        if group:
            yield group


def _copied_ahead(
    groups: Generator[list[NumberedBatch], None, None], device: torch.device, module: Any
) -> NumberedBatches:
    """Copy each group while the previous one is in use, as the module docstring describes.

    A batch that is being copied does not count as yielded until it is yielded. `module` is
    ``torch.cuda`` or the module of another accelerator.
    """
    stream = module.Stream(device)
    waiting: deque[NumberedBatches] = deque()
    with closing(groups):
        for group in groups:
            waiting.append(_copying(group, device, module, stream))
            if len(waiting) > _AHEAD:
                yield from waiting.popleft()
        while waiting:
            yield from waiting.popleft()


def _copying(
    group: list[NumberedBatch], device: torch.device, module: Any, stream: Any
) -> NumberedBatches:
    """Start copying a group on `stream`, and return a generator that yields it when requested."""
    with module.stream(stream):
        batches, memory = _pinned_tensors(
            [batch for batch, *_ in group], lambda tensor: start_copy(tensor, device)
        )
        copied = stream.record_event()
    marks = [(offset, size) for _, offset, size in group]

    def ready(batches: deque[Any]) -> NumberedBatches:
        for offset, size in marks:
            # Another stream may be the current one for each batch.
            _wait(module.current_stream(device), copied, memory)
            if len(batches) == 1:
                memory.clear()  # from now on, only the user keeps the last batch
            yield batches.popleft(), offset, size

    return ready(deque(batches))


def _wait(stream: Any, copied: Any, memory: list[torch.Tensor]) -> None:
    """Make a stream wait for copies, and mark their memory as used by that stream."""
    stream.wait_event(copied)
    for tensor in memory:
        tensor.record_stream(stream)


def pinned(batches: NumberedBatches, *, are_dicts: bool) -> NumberedBatches:
    """Copy tensors in batches, which are dicts of columns if `are_dicts`, to pinned memory."""
    with closing(batches):
        for batch, offset, size in batches:
            if are_dicts:  # skip lists, since looking for tensors would visit each object
                tensors = {name: v for name, v in batch.items() if not isinstance(v, list)}
                batch = {**batch, **_pinned_tensors(tensors)[0]}
            else:
                batch, _ = _pinned_tensors(batch)
            yield batch, offset, size


def same(value: Any) -> Any:
    """Return a tensor or a batch unchanged."""
    return value


def start_copy(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Start copying a pinned tensor to a device on the current stream."""
    return tensor.to(device, non_blocking=True)


def _pinned_tensors(
    batch: Any, move: Callable[[torch.Tensor], torch.Tensor] = same
) -> tuple[Any, list[torch.Tensor]]:
    """Copy a batch's tensors to pinned memory, and from there with `move`.

    Returns
    -------
    batch : object
        The batch with the copies, some of which share memory.
    memory : list of torch.Tensor
        The tensors that `move` returned, which own the memory of the copies.
    """
    tensors: list[torch.Tensor] = []

    def found(tensor: torch.Tensor) -> torch.Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(found, batch)
    small: list[int] = []
    large: list[int] = []
    for number, tensor in enumerate(tensors):
        is_small = is_plain(tensor) and tensor.nbytes <= _MOST_PACKED
        (small if is_small else large).append(number)
    memory = []
    together = pack([tensors[number] for number in small], pinned_memory)
    if together.memory is not None:
        memory.append(move(together.memory))
        copies = unpack(together._replace(memory=memory[0]))
        for number, tensor in zip(small, copies, strict=True):
            tensors[number] = tensor
    for number in large:
        tensors[number] = move(_pinned(tensors[number]))
        memory.append(tensors[number])
    ready = iter(tensors)
    return map_tensors(lambda _: next(ready), batch), memory


def _pinned(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in pinned memory, or unchanged if it is not in the CPU's memory."""
    if tensor.device.type != "cpu" or tensor.is_pinned():
        return tensor
    if not is_plain(tensor):
        return tensor.pin_memory()
    # `Tensor.pin_memory` would use all of PyTorch's threads, which occupy processors for a while
    # after each copy. Other threads need these processors for reading and decoding.
    memory = pinned_memory(tensor.nbytes)
    memory.numpy()[:] = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return memory.view(tensor.dtype).view(tensor.shape)


def pinned_memory(nbytes: int) -> torch.Tensor:
    """Return bytes in new pinned memory, from which an accelerator copies without waiting."""
    return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)


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
    return _repeated(batch, torch.arange(size) % rows, rows, is_batch=True)


def _repeated(values: Any, numbers: torch.Tensor, rows: int, *, is_batch: bool = False) -> Any:
    """Return the rows `numbers` of the whole batch or of a part of it."""
    if isinstance(values, torch.Tensor):
        return values[numbers.to(values.device)] if _has_rows(values, rows) else values
    if isinstance(values, Mapping):
        parts = {key: _repeated(value, numbers, rows) for key, value in values.items()}
        return with_values(values, parts)
    if not isinstance(values, (list, tuple)):
        return values
    if hasattr(values, "_fields"):
        return type(values)(*(_repeated(value, numbers, rows) for value in values))
    if (
        len(values) == rows
        and not is_batch
        and not all(isinstance(value, torch.Tensor) and _has_rows(value, rows) for value in values)
    ):
        return type(values)(values[number] for number in numbers.tolist())
    return type(values)(_repeated(value, numbers, rows) for value in values)


def _has_rows(values: torch.Tensor, rows: int) -> bool:
    return values.ndim > 0 and len(values) == rows
