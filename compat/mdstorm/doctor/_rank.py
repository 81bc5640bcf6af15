"""One rank of a round trip: reads its share in one library, and says what it got.

Run by ``python -m mdstorm.doctor._rank torch URL``. It stops in the middle, and a new loader
resumes from the state of the first one. What it writes to standard output is JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from mdstorm.doctor._sample_rows import COLUMNS, wrong_values
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

_BATCH = 64
#: Batches before it stops: no share of fewer than eight ranks ends before.
_BEFORE = 2

_Batches = tuple[Iterator[Mapping[str, Any]], Callable[[], Any]]


def read_share(library: str, url: str) -> dict[str, Any]:
    """Read the share of this rank.

    Returns
    -------
    dict
        The ``ids`` of the rows in their order; ``wrong``, the number of wrong values by column; and
        the ``device`` of the tensors.
    """
    converter = make_spark_converter(url)
    read, convert = (_in_torch, _TORCH) if library == "torch" else (_in_tf, _TF)
    ids: list[int] = []
    wrong: dict[str, int] = {}
    device = "cpu"
    state = None
    for most in (_BEFORE, None):
        batches, state_dict = read(converter, list(convert), state)
        for batch in islice(batches, most):
            rows = _plain(batch["id"])
            found = {name: _with_nulls(batch, name) for name in convert}
            for name, count in wrong_values(rows, found, convert).items():
                wrong[name] = wrong.get(name, 0) + count
            ids += rows
            device = str(getattr(batch["id"], "device", device)).rpartition("device:")[2].lower()
        state = json.loads(json.dumps(state_dict()))
    return {"ids": ids, "wrong": wrong, "device": device}


_TORCH = {name: column.in_torch for name, column in COLUMNS.items()}
_TF = {name: column.in_tf for name, column in COLUMNS.items() if column.in_tf is not None}


def _in_torch(converter: SparkDatasetConverter, columns: list[str], state: Any) -> _Batches:
    import torch

    loader: Any = converter.make_torch_dataloader(
        device="cuda" if torch.cuda.is_available() else None, **_arguments(columns)
    )
    if state is not None:
        loader.load_state_dict(state)
    return iter(loader), loader.state_dict


def _in_tf(converter: SparkDatasetConverter, columns: list[str], state: Any) -> _Batches:
    dataset: Any = converter.make_tf_dataset(**_arguments(columns))
    if state is not None:
        dataset.load_state_dict(state)
    return (batch._asdict() for batch in dataset), dataset.state_dict


def _arguments(columns: list[str]) -> dict[str, Any]:
    return {
        "batch_size": _BATCH,
        "num_epochs": 1,
        "cur_shard": "auto",
        "seed": 7,
        "shuffling_queue_capacity": 200,
        "schema_fields": ["id", *columns],
        "null_masks": columns,
        "decimals": "decimal",
    }


def _with_nulls(batch: Mapping[str, Any], name: str) -> list[Any]:
    """Return the values of a column, with None where its mask says so."""
    masks = _plain(batch[f"{name}_is_null"])
    values = _plain(batch[name])
    return [None if mask else value for value, mask in zip(values, masks, strict=True)]


def _plain(values: Any) -> list[Any]:
    """Return a column of a batch as values of Python."""
    if isinstance(values, list):
        return [one.tolist() if hasattr(one, "tolist") else one for one in values]
    if hasattr(values, "to_list"):  # a RaggedTensor
        return list(values.to_list())
    return list((values.numpy() if hasattr(values, "_numpy") else values).tolist())


def main() -> None:
    """Read, and write the result to standard output."""
    warnings.simplefilter("ignore")
    library, url = sys.argv[1:]
    print(json.dumps(read_share(library, url)))


if __name__ == "__main__":
    main()
