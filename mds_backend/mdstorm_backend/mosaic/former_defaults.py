"""Defaults that MosaicML Streaming's own datasets kept when `StreamingDataset` changed them."""

from __future__ import annotations

from typing import Any

from mdstorm_backend.base import require

require("torch")

from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset  # noqa: E402

#: They decide about the sample order.
_DEFAULTS = {"partition_algo": "orig", "shuffle_algo": "py1s", "shuffle_block_size": 1 << 18}


class FormerDefaults(StreamingDataset):
    """A dataset with the former defaults, for the classes of named datasets."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**_DEFAULTS, **settings})
