"""Recordings that tests make up, and ``mdstorm compare`` for them."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from mdstorm.cli import main
from mdstorm_migrate.compare import recorder

#: The file that `mdstorm compare --recorder` prints.
RECORDER = Path(recorder.__file__)


def run(*arguments: object) -> tuple[int, str]:
    """Run the command in this process; return its exit code and output."""
    found = CliRunner().invoke(main, ["compare", *map(str, arguments)])
    return found.exit_code, found.output


def loader_at(call: int, **changed: Any) -> dict[str, Any]:
    """Return a loader that read eight rows of one column."""
    column = {"dtypes": ["float32"], "shapes": ["[]"], "nulls": 0}
    digests = dict.fromkeys(("digest", "ordered", "rest"), "0" * 32)
    data = {"rows": 8, "sizes": {"4": 2}, "digest": "1", "columns": {"id": {**column, **digests}}}
    return {
        "kind": "DataLoader",
        "file": "train.py",
        "function": "main",
        "call": call,
        "arguments": {},
        "passes": [[2, 8, True]],
        "data": data,
        **changed,
    }


def loader_of(values: Any, **arguments: object) -> dict[str, Any]:
    """Return a loader that read these values in one column, ``x``."""
    found = recorder.PassTotals(is_batched=True)
    found.add({"x": values})
    passes = [[1, len(values), True]]
    return loader_at(0, data=found.to_json(), passes=passes, arguments=arguments)


def recording(*loaders: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """Return a recording of one run."""
    return {
        "recording": 1,
        "program": "train.py",
        "rank": 0,
        "ranks": 1,
        "libraries": {"petastorm": "0.13.1"},
        "runs": [{"ended": None, "loaders": list(loaders)}],
        **changed,
    }


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def compare_loaders(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> tuple[int, str]:
    """Compare the recordings of one loader each."""
    paths = (write(folder / f"{n}.json", recording(one)) for n, one in enumerate((old, new)))
    return run(*paths)
