"""`StreamingDataModule` for ``lightning.pytorch``."""

from mdstorm._lightning import ConverterLoaders
from mdstorm_backend.base import require

LightningDataModule = require("lightning.pytorch").LightningDataModule

__all__ = ["StreamingDataModule"]


class StreamingDataModule(ConverterLoaders, LightningDataModule):  # type: ignore[misc, valid-type]  # noqa: D101
    __doc__ = ConverterLoaders.__doc__
