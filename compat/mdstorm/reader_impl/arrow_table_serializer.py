"""Send Arrow tables: the mirror of ``petastorm.reader_impl.arrow_table_serializer``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["ArrowTableSerializer"]


class ArrowTableSerializer:
    """Writes tables as streams of Arrow's IPC format.

    mdstorm takes it as an argument of `ProcessPool`, and does not use it.
    """

    def serialize(self, rows: pa.Table) -> pa.Buffer:
        """Return a table as a stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return sink.getvalue()

    def deserialize(self, serialized_rows: Any) -> pa.Table:
        """Return the table of a stream."""
        with pa.ipc.open_stream(serialized_rows) as reader:
            return reader.read_all()
