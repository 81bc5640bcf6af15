"""The first rows of a loader, as tensors in memory."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from mdstorm._torch.columns import Columns, num_rows
from mdstorm_backend.base.user_warnings import warn_user

__all__ = ["first_rows"]


def first_rows(
    batches: Iterable[Columns], capacity: int, *, is_endless: bool
) -> dict[str, torch.Tensor]:
    """Return the first `capacity` rows, and warn if there are more, unless they never end."""
    parts: list[Columns] = []
    missing = capacity
    for batch in batches:
        rows = num_rows(batch)
        if missing:
            parts.append({name: values[:missing] for name, values in batch.items()})
        left_out = rows > missing
        missing = max(missing - rows, 0)
        if is_endless and not missing:
            break
        if left_out:
            warn_user(
                f"InMemBatchedDataLoader keeps the first {capacity} rows of the reader and leaves "
                "out the others: raise rows_capacity, or open the reader with fewer rows"
            )
            break
    names = parts[0] if parts else {}
    return {name: torch.cat([part[name] for part in parts]) for name in names}
