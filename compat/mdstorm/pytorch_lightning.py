"""`StreamingDataModule` for ``pytorch_lightning``."""

from __future__ import annotations

from mdstorm._lightning.converter_loaders import ConverterLoaders
from mdstorm_backend.base import require

LightningDataModule = require("pytorch_lightning").LightningDataModule

__all__ = ["StreamingDataModule"]


class StreamingDataModule(ConverterLoaders, LightningDataModule):  # type: ignore[misc, valid-type]
    """Converters as a data module: see `ConverterLoaders` for the parameters.

    Each rank gets its share of the rows when the Trainer has made its processes, whatever its
    strategy, and each row comes once in an epoch. Lightning's checkpoints have the place in the
    training data, so that ``fit(…, ckpt_path=…)`` goes on with the next row.
    """
