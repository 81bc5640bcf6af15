"""An error about a name that may be a table's or a view's advises how Spark reads it, exactly.

Names are written in all ways, and given to everything that opens data. The expression in the
message is parsed by Spark's grammar, and has the parts of the name.
"""

import ast
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mdstorm import convert, make_batch_reader, make_reader
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataset, open_dataset
from mdstorm_backend.errors import MDStormError

ENTRIES: dict[str, Callable[[str], Any]] = {
    "make_spark_converter": make_spark_converter,
    "make_reader": make_reader,
    "make_batch_reader": make_batch_reader,
    "open_dataset": open_dataset,
    "convert": lambda name: convert(name, "out"),
    "StreamingDataset": lambda name: StreamingDataset(local=name),
}
#: Parts of names, as they are in a catalog.
PARTS = ["v1", "events", "my view", "events-2024", "a.b", "2024", "tick`s", "naïve", "_x", "Sales"]
#: A part in Spark's grammar that cannot be taken as a number, or anything within backticks.
PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`")


def written(part: str, draw: random.Random) -> str:
    """Write a part as people do: with backticks only if they think that it needs them."""
    is_plain = re.fullmatch(r"[A-Za-z_][\w-]*", part, re.ASCII)
    return part if is_plain and draw.random() < 0.7 else f"`{part.replace('`', '``')}`"


def parsed(name: str) -> list[str]:
    """Return the parts of a name by Spark's grammar."""
    assert re.fullmatch(rf"(?:{PART.pattern})(?:\.(?:{PART.pattern}))*", name), name
    return [re.sub("``", "`", one.strip("`")) for one in PART.findall(name)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", ENTRIES)
def test_error_about_name_advises_how_spark_reads_it(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    draw = random.Random(entry)
    for parts in [*([one] for one in PARTS), *(draw.sample(PARTS, 2) for _ in range(12))]:
        name = ".".join(written(one, draw) for one in parts)
        with pytest.raises(MDStormError) as caught:
            ENTRIES[entry](name)
        advice = re.search(r"spark\.table\(((?:'[^']*'|\"[^\"]*\"))\)", str(caught.value))
        # Elsewhere, one word is more often a path.
        if entry == "make_spark_converter" or len(parts) == 2 or "`" in name:
            assert advice is not None, (name, str(caught.value))
        if advice is not None:
            assert parsed(ast.literal_eval(advice[1])) == parts
