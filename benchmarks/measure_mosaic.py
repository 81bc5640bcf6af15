"""MosaicML Streaming's `StreamingDataLoader`, reading MDS written by `dataframe_to_mds`.

Runs in the `mosaic` environment created by `make_environments.sh`.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from measuring import Loader, arguments, emit, reading_speed, time_writes, touch_mapping
from streaming import StreamingDataLoader, StreamingDataset
from streaming.base.converters import dataframe_to_mds
from table import spark_session

# A pass over the whole table takes most of a minute. Every row takes the same time, so an epoch
# with fewer rows from the same shards has the same speed.
ROWS_PER_EPOCH = 100_000


def open_loader(loader: StreamingDataLoader) -> Loader:
    """Return a context manager for the loader, because the loader itself is not one."""
    return nullcontext(loader)


def main() -> None:
    """Measure and print one line of JSON."""
    options = arguments(__doc__)
    rows, batch_size = options.rows, options.batch_size
    epoch_size = min(rows, ROWS_PER_EPOCH)

    with tempfile.TemporaryDirectory() as folder:
        names = count()

        def write(frame: Any) -> str:
            out = str(Path(folder, f"table-{next(names)}"))
            # Uncompressed, like the other libraries' files; the default is zstd.
            dataframe_to_mds(frame, mds_kwargs={"out": out, "compression": None})
            return out

        session = spark_session()
        figures, local = time_writes(session, write, rows)
        session.stop()

        torch = {}
        for name, shuffle in (("in_order", False), ("shuffled", True)):
            dataset = StreamingDataset(
                local=local, batch_size=batch_size, shuffle=shuffle, epoch_size=epoch_size
            )
            loader = StreamingDataLoader(dataset, batch_size=batch_size, num_workers=0)
            torch[name] = reading_speed(partial(open_loader, loader), touch_mapping, epoch_size)

    emit(
        {
            "library": "mosaic",
            "version": version("mosaicml-streaming"),
            "rows": rows,
            "batch_size": batch_size,
            **figures,
            "torch_rows_per_s": torch,
            "rows_read_per_pass": epoch_size,
        }
    )


if __name__ == "__main__":
    main()
