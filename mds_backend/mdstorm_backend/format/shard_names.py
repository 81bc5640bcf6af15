"""Names of shard files: which writer wrote a shard, and which of its shards it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mdstorm_backend.format.compression import EXTENSIONS

_SHARD_NAME = re.compile(
    r"(?:shard|part-(?P<partition>\d{5,})-(?:(?P<job>[0-9a-f]{8})-)?(?P<attempt>\d+))"
    rf"\.(?P<number>\d{{5,}})\.mds(?:\.(?P<extension>{EXTENSIONS}))?"
)


@dataclass(frozen=True)
class ShardName:
    """The parsed name of a shard file.

    Attributes
    ----------
    path : str
        The whole name, relative to the dataset directory.
    directory : str
        Subdirectory of the dataset directory; empty if there is none.
    job : str
        Spark job that wrote the shard; empty if the name does not state one.
    partition, attempt : int
        Partition and attempt of that job; -1 for shards of a single writer.
    number : int
        Number of the shard among its writer's shards, starting at 0.
    extension : str
        Extension for the compression; empty for an uncompressed shard.
    """

    path: str
    directory: str
    job: str
    partition: int
    attempt: int
    number: int
    extension: str

    @property
    def writer(self) -> tuple[str, str, int, int]:
        """Identifies the writer of the shard; each writer numbers its shards from 0."""
        return self.directory, self.job, self.partition, self.attempt

    @property
    def place(self) -> str:
        """The job's output directory, without any subdirectory for the shard's partition."""
        parent, _, last = self.directory.rpartition("/")
        return parent if self.job and last == f"{self.partition:05}" else self.directory

    @property
    def raw_path(self) -> str:
        """Path of the uncompressed file."""
        return self.path.removesuffix(f".{self.extension}") if self.extension else self.path


def parse_shard_name(path: str) -> ShardName | None:
    """Parse a file path; return None if it is not the name of a shard."""
    directory, _, name = path.rpartition("/")
    found = _SHARD_NAME.fullmatch(name)
    if found is None:
        return None
    partition, attempt = int(found["partition"] or -1), int(found["attempt"] or -1)
    job, number, extension = found["job"] or "", int(found["number"]), found["extension"] or ""
    return ShardName(path, directory, job, partition, attempt, number, extension)
