"""PyTorch: `StreamingDataset`, `StreamingDataLoader` and tensors."""

from __future__ import annotations

from mdstorm_backend.loaders.torch.block_passes import loop_of
from mdstorm_backend.loaders.torch.collation import are_alike
from mdstorm_backend.loaders.torch.dataset_settings import DatasetSettings
from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset
from mdstorm_backend.loaders.torch.streaming_data_loader import StreamingDataLoader
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset
from mdstorm_backend.loaders.torch.torch_batches import BatchT, Collate, TorchBatch
from mdstorm_backend.loaders.torch.torch_tensors import (
    TorchValues,
    check_columns,
    tensor_batches,
    to_collated,
    to_torch,
)

__all__ = [
    "BatchT",
    "Collate",
    "DatasetSettings",
    "OpenedDataset",
    "StreamingDataLoader",
    "StreamingDataset",
    "TorchBatch",
    "TorchValues",
    "are_alike",
    "check_columns",
    "loop_of",
    "tensor_batches",
    "to_collated",
    "to_torch",
]
