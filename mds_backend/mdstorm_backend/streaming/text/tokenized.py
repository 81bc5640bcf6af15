"""Texts as the tokens of a Hugging Face tokenizer."""

from __future__ import annotations

from typing import Any

from mdstorm_backend.base import require
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.streaming.base.dataset import StreamingDataset
from mdstorm_backend.streaming.base.former_defaults import FORMER_DEFAULTS


class TokenizedTexts(StreamingDataset):
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
        super().__init__(**{**FORMER_DEFAULTS, **settings})
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
