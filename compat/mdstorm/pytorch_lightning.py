"""`StreamingDataModule` for ``pytorch_lightning``."""

from __future__ import annotations

from mdstorm._integrations.converter_loaders import ConverterLoaders
from mdstorm_backend.base import require

LightningDataModule = require("pytorch_lightning").LightningDataModule

__all__ = ["StreamingDataModule"]


class StreamingDataModule(ConverterLoaders, LightningDataModule):  # type: ignore[misc, valid-type]
    """Converters as a data module.

    `train`, `val`, `test` and `predict` are converters, and any of them may be left out;
    `batch_size` counts rows on each rank. Further arguments are those of
    ``make_torch_dataloader``, and `evaluation` has those that differ where nothing is trained:
    ``StreamingDataModule(train=converter, val=other, batch_size=64, labels="y")``. More is said of
    `ConverterLoaders`, the base class.

    Each rank gets its share of the rows when the Trainer has made its processes, whatever its
    strategy, and each row comes once in an epoch. Lightning's checkpoints have the place in the
    training data, so that ``fit(…, ckpt_path=…)`` goes on with the next row.
    """
