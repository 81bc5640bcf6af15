"""Store finished shards as named files, with their entries for the index."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mdstorm_backend.storage import Buffer
from mdstorm_backend.write.file_sink import FileSink
from mdstorm_backend.write.shard_format import FullShard, ShardFormat, ShardReport


class ShardStore:
    """Packs shards and writes them, by the threads of a sink.

    Parameters
    ----------
    sink : FileSink
        Where they go.
    format_ : ShardFormat
        What they have in common.
    name : callable
        Name of the uncompressed shard of a number.
    """

    def __init__(self, sink: FileSink, format_: ShardFormat, name: Callable[[int], str]) -> None:
        self._sink = sink
        self._format = format_
        self._name = name
        self._count = 0
        self._reports: dict[int, ShardReport] = {}

    def put(self, shard: FullShard) -> None:
        """Let a thread pack and write a shard.

        Raises
        ------
        WriteError
            If an earlier one could not be written.
        """
        number, self._count = self._count, self._count + 1
        self._sink.submit(partial(self._pack, number, shard))

    def finish(self) -> list[ShardReport]:
        """Wait for all shards and return their reports in order.

        Raises
        ------
        WriteError
            If one could not be written.
        """
        self._sink.wait()
        return [self._reports[number] for number in range(self._count)]

    def _pack(self, number: int, shard: FullShard) -> tuple[str, list[Buffer]]:
        report, name, content = shard.pack(self._name(number), self._format)
        self._reports[number] = report
        return name, content
