"""Defaults that MosaicML Streaming's own datasets kept when `StreamingDataset` changed them."""

from __future__ import annotations

#: Arguments of `StreamingDataset`; they decide about the sample order.
FORMER_DEFAULTS = {
    "partition_algo": "orig",
    "shuffle_algo": "py1s",
    "shuffle_block_size": 1 << 18,
}
