"""What type checkers are told of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    class TorchBatch(dict[Any, torch.Tensor | Any]):
        """A dict from column to tensor, or to a list where PyTorch has no type for a column.

        Datasets may have samples of their own, tuples for instance, and so have the batches of
        them: what only fits these is `Any`.
        """

        def __getitem__(self, column: Any, /) -> torch.Tensor | Any: ...

        def __getattr__(self, name: str) -> Any: ...

    BatchT = TypeVar("BatchT", default=Any)
else:
    from typing import TypeVar

    TorchBatch = dict
    BatchT = TypeVar("BatchT")
