"""Represent results of random programs independently of the library."""

from __future__ import annotations

import faulthandler
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.contract.conformance.describing import describe

#: A program that runs longer than this is considered to hang, and the whole run ends with a
#: traceback.
_LONGEST_SECONDS = 300


def described(value: Any) -> Any:
    """Convert results to JSON, with all types, shapes and values."""
    if isinstance(value, list):
        return [described(one) for one in value]
    if hasattr(value, "_asdict"):
        return {type(value).__name__: described(value._asdict())}
    if isinstance(value, Mapping):
        return {str(key): described(one) for key, one in value.items()}
    return describe(without_differences(value))


def without_differences(value: Any) -> Any:
    """Remove the differences that docs/differences.md describes for partitions and nulls."""
    is_categorical = type(value).__name__ == "Categorical"
    if not is_categorical and not (isinstance(value, np.ndarray) and value.dtype.kind in "UO"):
        return value
    values = np.asarray(value)
    is_text = {type(one) for one in values.flat} <= {str, type(None)}
    return values.astype(str) if is_text else values


def sorted_rows(items: list[Any]) -> list[str]:
    """Return the rows of items in sorted order; items may be rows or batches."""
    texts = []
    for item in items:
        fields = item._asdict() if hasattr(item, "_asdict") else item
        rows = [fields]
        if np.ndim(fields.get("id", 0)):
            columns = {name: without_differences(values) for name, values in fields.items()}
            numbers = range(len(columns["id"]))
            rows = [{name: values[n] for name, values in columns.items()} for n in numbers]
        texts += [json.dumps(described(row), sort_keys=True) for row in rows]
    return sorted(texts)


def play_all(play: Callable[[int, Path], Any]) -> None:
    """Run the programs whose numbers are on the command line; write the result or error of each."""
    warnings.simplefilter("ignore")
    _, _, _, results, *numbers = sys.argv
    found = {}
    for number in numbers:
        faulthandler.dump_traceback_later(_LONGEST_SECONDS, exit=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                found[number] = {"found": play(int(number), Path(folder))}
            except Exception as error:
                found[number] = {"raises": f"{type(error).__name__}: {error}"}
    faulthandler.cancel_dump_traceback_later()
    Path(results).write_text(json.dumps(found, sort_keys=True), "utf-8")
