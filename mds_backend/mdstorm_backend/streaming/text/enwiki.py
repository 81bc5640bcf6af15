"""The mirror of ``streaming.text.enwiki``."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdstorm_backend.streaming.base.dataset import StreamingDataset
from mdstorm_backend.streaming.base.former_defaults import FORMER_DEFAULTS

__all__ = ["StreamingEnWiki"]

#: The label of tokens that are not to be predicted.
_NO_LABEL = -100


class StreamingEnWiki(StreamingDataset):
    """English Wikipedia, prepared for BERT with masked tokens.

    Columns are stored as the bytes of int32 arrays (``masked_lm_weights``: float32). A sample is a
    dict of the arrays ``input_ids``, ``token_type_ids``, ``attention_mask`` and ``labels``, which
    is -100 but for the masked tokens.

    Parameters
    ----------
    **settings
        Arguments of `StreamingDataset`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**FORMER_DEFAULTS, **settings})

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return sample `sample_id` as a model of transformers takes it."""
        stored = super().get_item(sample_id, retry)
        tokens = np.frombuffer(stored["input_ids"], np.int32).copy()
        labels = np.full(len(tokens), _NO_LABEL)
        masked = np.frombuffer(stored["masked_lm_positions"], np.int32)
        labels[masked] = np.frombuffer(stored["masked_lm_ids"], np.int32)
        return {
            "input_ids": tokens,
            "token_type_ids": np.frombuffer(stored["segment_ids"], np.int32).copy(),
            "attention_mask": np.frombuffer(stored["input_mask"], np.int32).copy(),
            "labels": labels,
        }
