"""The datasets that a program reads, and the folder that it writes to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: Datasets that the real Petastorm wrote; see make_data.py.
DATA = Path(__file__).with_name("data")
#: The same datasets, written by mdstorm with the same program.
DATA_OF_MDSTORM = Path(__file__).with_name("data_of_mdstorm")


class Place:
    """An empty folder for one program, along with the datasets that all programs share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def dataset(self, name: str) -> str:
        """URL of a dataset that the real Petastorm wrote."""
        return f"file://{DATA / name}"

    def dataset_of_mdstorm(self, name: str) -> str:
        """URL of a dataset that mdstorm's `materialize_dataset` wrote."""
        return f"file://{DATA_OF_MDSTORM / name}"

    def url(self, name: str = "") -> str:
        """URL of a file in the program's own folder."""
        return f"file://{self.folder / name}"

    def parquet(
        self, columns: Mapping[str, Any], *, group: int = 1000, name: str = "data/part-0.parquet"
    ) -> str:
        """Write a Parquet file with row groups of `group` rows; return the URL of its folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(dict(columns)), path, row_group_size=group, version="2.6")
        return f"file://{path.parent}"

    def numbers(self, rows: int = 10, *, group: int = 4) -> str:
        """Write the columns ``id`` = 0, 1, … and ``x`` = id / 2; return the folder's URL."""
        ids = np.arange(rows)
        return self.parquet({"id": ids, "x": ids / 2}, group=group)

    def files(self, sizes: Sequence[int]) -> list[str]:
        """Write files with the given row counts and ascending ids; return the files' URLs."""
        urls, start = [], 0
        for number, size in enumerate(sizes):
            name = f"files/part-{number}.parquet"
            self.parquet({"id": np.arange(start, start + size)}, name=name)
            urls.append(self.url(name))
            start += size
        return urls

    def partitioned(self, column: str = "part", values: Sequence[str] = ("a", "b")) -> str:
        """Write a Hive-partitioned dataset with two rows per partition; return its root URL."""
        for number, value in enumerate(values):
            ids = np.arange(2 * number, 2 * number + 2)
            self.parquet({"id": ids}, name=f"hive/{column}={value}/part-0.parquet")
        return self.url("hive")
