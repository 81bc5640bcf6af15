"""Datasets of texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdstorm_backend.base import require
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.mosaic.former_defaults import FormerDefaults

#: The label of tokens that are not to be predicted.
_NO_LABEL = -100


class TokenizedTexts(FormerDefaults):
    """A dataset whose column ``text`` is tokenized when a sample is read.

    Parameters
    ----------
    tokenizer_name : str
        The tokenizer, as ``transformers.AutoTokenizer.from_pretrained`` takes it. One that has no
        padding token pads with the token that ends a text.
    max_seq_len : int
        Number of tokens of each sample: texts are cut off or padded.
    group_method : str
        ``"truncate"``, the only one there is.
    **settings
        Arguments of `StreamingDataset`.

    Raises
    ------
    InvalidArgumentError
        If `group_method` is another one. A `ValueError`.
    MissingDependencyError
        If transformers is not installed.
    """

    def __init__(
        self, *, tokenizer_name: str, max_seq_len: int, group_method: str, **settings: Any
    ) -> None:
        if group_method != "truncate":
            raise InvalidArgumentError(
                f"group_method is {group_method!r}, but only group_method='truncate' exists: "
                "override get_item for another way to group texts"
            )
        super().__init__(**settings)
        self.tokenizer_name = tokenizer_name
        self.max_seq_len = max_seq_len
        self.group_method = group_method
        self.tokenizer = require("transformers").AutoTokenizer.from_pretrained(tokenizer_name)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return what the tokenizer makes of the text of sample `sample_id`."""
        return self._tokenize(super().get_item(sample_id, retry))

    def _tokenize(self, text_sample: dict[str, Any]) -> Any:
        return self.tokenizer(
            text_sample["text"],
            truncation=True,
            padding="max_length",
            max_length=self.max_seq_len,
        )


class StreamingC4(TokenizedTexts):
    """C4, the cleaned Common Crawl: texts as tokens."""


class StreamingPile(TokenizedTexts):
    """The Pile: texts as tokens."""


class StreamingEnWiki(FormerDefaults):
    """English Wikipedia, prepared for BERT with masked tokens.

    Columns are stored as the bytes of int32 arrays (``masked_lm_weights``: float32). A sample is a
    dict of the arrays ``input_ids``, ``token_type_ids``, ``attention_mask`` and ``labels``, which
    is -100 but for the masked tokens.

    Parameters
    ----------
    **settings
        Arguments of `StreamingDataset`.
    """

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
