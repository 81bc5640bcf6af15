"""Texts and tokens, stored as in programs that train language models."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from streaming import MDSWriter, Stream, StreamingDataLoader, StreamingDataset
from streaming.text import StreamingEnWiki
from torch.utils.data import DataLoader, IterableDataset

TEXTS = [
    "the storm came late",
    "a heron waited",
    "nobody on the quay said a word",
    "then rain",
    "rain and more rain until the morning",
    "the boats stayed in",
    "a boy counted the waves",
    "he stopped at nine hundred",
]


class Tokenizer:
    """A tokenizer with one token per character, and the `transformers` methods needed here."""

    pad_token_id = 0
    eos_token_id = 1
    padding_side = "right"
    model_max_length = 64

    def __call__(self, text: str, truncation: bool = False, max_length: int = 64, **_: Any) -> Any:
        ids = [ord(letter) - 30 for letter in text]
        ids = ids[:max_length] if truncation else ids
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def pad(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        longest = max(len(sample["input_ids"]) for sample in samples)
        rows = [
            [*map(int, s["input_ids"]), *[self.pad_token_id] * (longest - len(s["input_ids"]))]
            for s in samples
        ]
        input_ids = torch.tensor(rows)
        return {"input_ids": input_ids, "attention_mask": (input_ids != 0).long()}


class LanguageModelCollator:
    """Pads samples, and uses their tokens as labels, with -100 in place of the padding."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __call__(self, samples: Sequence[Any]) -> dict[str, torch.Tensor]:
        batch = self.tokenizer.pad(samples)
        labels = batch["input_ids"].clone()
        labels[batch["input_ids"] == self.tokenizer.pad_token_id] = -100
        return {**batch, "labels": labels}


class TextDataset(StreamingDataset):
    """Returns each sample's tokens: its text is tokenized, or its stored tokens are truncated."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_seq_len: int,
        local: str | None = None,
        split: str | None = None,
        **settings: Any,
    ) -> None:
        base = os.path.join(local, split) if local and split else local
        if not settings.keys() & {"streams", "remote"} and not os.path.isdir(base or ""):
            raise FileNotFoundError(base)
        super().__init__(local=local, split=split, **settings)
        self.tokenizer = tokenizer
        self.max_seq_len = max_seq_len

    def _read_binary_tokenized_sample(self, sample: dict[str, Any]) -> torch.Tensor:
        tokens = sample["tokens"]
        if isinstance(tokens, bytes):
            tokens = np.frombuffer(tokens, dtype=np.int64)
        return torch.from_numpy(tokens[: self.max_seq_len].copy().astype(np.int64))

    def __getitem__(self, idx: int) -> Any:
        sample = super().__getitem__(idx)
        if "text" in sample:
            return self.tokenizer(sample["text"], truncation=True, max_length=self.max_seq_len)
        if "tokens" in sample:
            return self._read_binary_tokenized_sample(sample)
        raise RuntimeError("samples have neither `text` nor `tokens`")


class ConcatTokens(IterableDataset):  # type: ignore[type-arg]
    """Concatenates tokenized texts and cuts them into samples of the same length."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, max_length: int) -> None:
        self.texts = texts
        self.tokenizer = tokenizer
        self.max_length = max_length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        buffer: list[int] = []
        for text in self.texts:
            buffer += [*self.tokenizer(text)["input_ids"], self.tokenizer.eos_token_id]
            while len(buffer) >= self.max_length:
                sample, buffer = buffer[: self.max_length], buffer[self.max_length :]
                yield {"tokens": np.asarray(sample)}


def _samples(loader: DataLoader[Any]) -> Iterator[dict[str, Any]]:
    for batch in loader:
        keys = list(batch.keys())
        for i in range(len(batch[keys[0]])):
            yield {key: value[i].numpy() for key, value in batch.items()}


def _write_texts(out: Path, texts: Sequence[str] = TEXTS, **settings: Any) -> str:
    with MDSWriter(out=str(out), columns={"text": "str"}, **settings) as writer:
        for text in texts:
            writer.write({"text": text})
    return str(out)


def _write_tokens(out: Path, encoding: str) -> str:
    loader = DataLoader(ConcatTokens(TEXTS, Tokenizer(), 16), batch_size=3)
    with MDSWriter(out=str(out), columns={"tokens": encoding}, compression="zstd") as writer:
        for sample in _samples(loader):
            tokens = sample["tokens"]
            writer.write({"tokens": tokens.tobytes() if encoding == "bytes" else tokens})
    return str(out)


def texts_tokenized_while_reading(folder: Path) -> Any:
    tokenizer = Tokenizer()
    dataset = TextDataset(
        tokenizer, 12, local=_write_texts(folder / "c4" / "train"), batch_size=4, shuffle=True
    )
    loader = StreamingDataLoader(
        dataset=dataset,
        collate_fn=LanguageModelCollator(tokenizer),
        batch_size=4,
        drop_last=True,
        num_workers=0,
        pin_memory=False,
        prefetch_factor=None,
        persistent_workers=False,
        timeout=0,
    )
    return list(loader)


def texts_tokenized_by_workers(folder: Path) -> Any:
    tokenizer = Tokenizer()
    dataset = TextDataset(
        tokenizer,
        12,
        remote=_write_texts(folder / "remote", size_limit=128),
        local=str(folder / "local"),
        batch_size=2,
        shuffle=True,
        num_canonical_nodes=4,
    )
    loader = StreamingDataLoader(
        dataset,
        collate_fn=LanguageModelCollator(tokenizer),
        batch_size=2,
        num_workers=2,
        prefetch_factor=2,
        persistent_workers=True,
    )
    return [[batch["labels"] for batch in loader] for _ in range(2)]


def concatenated_tokens_as_bytes(folder: Path) -> Any:
    local = _write_tokens(folder / "tokens", "bytes")
    dataset = TextDataset(Tokenizer(), 12, local=local, batch_size=3)
    return list(StreamingDataLoader(dataset, batch_size=3))


def concatenated_tokens_as_arrays(folder: Path) -> Any:
    local = _write_tokens(folder / "tokens", "ndarray:int64:16")
    dataset = TextDataset(Tokenizer(), 16, local=local, batch_size=3, shuffle=True)
    return [dataset[0], list(StreamingDataLoader(dataset, batch_size=3))]


def streams_from_a_configuration(folder: Path) -> Any:
    _write_texts(folder / "data" / "c4" / "train", TEXTS[:5])
    _write_texts(folder / "data" / "books" / "train", TEXTS[5:])
    config = {
        "c4": {"remote": str(folder / "data" / "c4"), "proportion": 0.75},
        "books": {"remote": str(folder / "data" / "books"), "proportion": 0.25},
    }
    streams = [
        Stream(
            remote=stream["remote"],
            local=str(folder / "cache" / name),
            split="train",
            proportion=stream["proportion"],
            repeat=None,
            choose=None,
            download_retry=2,
            download_timeout=60,
            validate_hash=None,
            keep_zip=False,
        )
        for name, stream in config.items()
    ]
    dataset = TextDataset(Tokenizer(), 8, streams=streams, batch_size=2, epoch_size=12)
    return [sample["input_ids"] for sample in dataset]


class FinetuningDataset(StreamingDataset):
    """Prompts and responses, tokenized; only the response's tokens are labels."""

    def __init__(self, local: str, tokenizer: Tokenizer, max_seq_len: int, **settings: Any) -> None:
        super().__init__(local=local, **settings)
        self.tokenizer = tokenizer
        self.max_seq_len = max_seq_len

    def __getitem__(self, idx: int) -> dict[str, Any]:
        sample = super().__getitem__(idx)
        turns = sample.get("turns", [sample])
        input_ids, labels = [], []
        for turn in turns:
            prompt = self.tokenizer(turn["prompt"])["input_ids"]
            response = self.tokenizer(turn["response"])["input_ids"]
            input_ids += prompt + response
            labels += [-100] * len(prompt) + response
        return {"input_ids": input_ids[: self.max_seq_len], "labels": labels[: self.max_seq_len]}

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        return super().state_dict(num_samples=num_samples, from_beginning=from_beginning)


def _collate(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    longest = max(len(sample["input_ids"]) for sample in samples)
    fill = {"input_ids": 0, "labels": -100}
    return {
        key: torch.tensor([s[key] + [value] * (longest - len(s[key])) for s in samples])
        for key, value in fill.items()
    }


def prompts_and_responses(folder: Path) -> Any:
    with MDSWriter(out=str(folder / "data"), columns={"prompt": "str", "response": "str"}) as out:
        for i in range(8):
            out.write({"prompt": f"{i} + {i} =", "response": f" {2 * i}"})
    dataset = FinetuningDataset(
        str(folder / "data"), Tokenizer(), 10, batch_size=4, shuffle=True, num_canonical_nodes=2
    )
    loader = StreamingDataLoader(dataset, batch_size=4, collate_fn=_collate)
    return [list(loader), loader.state_dict()["sample_in_epoch"]]


def masked_tokens_of_wikipedia(folder: Path) -> Any:
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids")
    with MDSWriter(out=str(folder / "data"), columns=dict.fromkeys(names, "bytes")) as out:
        for i in range(4):
            values = [
                np.arange(8) + i,
                np.ones(8),
                np.zeros(8),
                np.array([1, i + 2]),
                np.array([70, 80]),
            ]
            out.write({n: v.astype(np.int32).tobytes() for n, v in zip(names, values, strict=True)})
    dataset = StreamingEnWiki(local=str(folder / "data"), batch_size=2, shuffle=True)
    return [dataset[3], list(StreamingDataLoader(dataset, batch_size=2))]
