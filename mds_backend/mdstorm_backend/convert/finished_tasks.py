"""Records of finished tasks, from which an interrupted conversion resumes.

A record is written beside the shards of its task, after them. It holds their entries for the index.
Its name begins like theirs and does not end in ``.json``; the commit removes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from mdstorm_backend.base.checks import parse_json
from mdstorm_backend.base.threads import map_files
from mdstorm_backend.errors import DatasetExistsError
from mdstorm_backend.storage import Location
from mdstorm_backend.write.shard_buffer import ShardReport

_NAME = re.compile(r"part-(?P<task>\d{5,})-(?P<job>[0-9a-f]{8})-\d+\.done")


class ConversionId:
    """Identifies what a conversion reads and how it writes it: equal ids mean equal results.

    Parameters
    ----------
    *parts
        The parts of the identity, as JSON values.

    Attributes
    ----------
    identity : str
        Hexadecimal digest of the parts.
    job : str
        The beginning of the digest, used in file names.
    """

    def __init__(self, *parts: Any) -> None:
        text = json.dumps(parts, sort_keys=True)
        self.identity = hashlib.sha256(text.encode("ascii")).hexdigest()
        self.job = self.identity[:8]

    def prefix(self, task: int, attempt: str) -> str:
        """Beginning of the names of the files of a task, in one attempt at the conversion."""
        return f"part-{task:05}-{self.job}-{attempt}"


def note_finished(
    location: Location, conversion: ConversionId, prefix: str, reports: Sequence[ShardReport]
) -> None:
    """Record that the shards of a task, whose names begin with `prefix`, are written."""
    note = {
        "identity": conversion.identity,
        "shards": [report.to_json() for report in reports],
    }
    location.write(f"{prefix}.done", [json.dumps(note).encode("ascii")])


def find_finished(location: Location, conversion: ConversionId) -> dict[int, list[ShardReport]]:
    """Return the reports of the tasks that earlier runs finished, by task number.

    A task is finished if its record is complete and every shard exists with the recorded size.
    """
    sizes = dict(location.list_sizes())
    matches = [match for match in map(_NAME.fullmatch, sizes) if match is not None]
    tasks = {m.string: int(m["task"]) for m in matches if m["job"] == conversion.job}

    def read(name: str) -> list[ShardReport] | None:
        try:
            note = parse_json(location.read(name))
            if note["identity"] != conversion.identity:
                return None
            reports = [ShardReport.from_json(value) for value in note["shards"]]
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return None
        files = [report.info.stored for report in reports]
        return reports if all(sizes.get(f.basename) == f.bytes for f in files) else None

    found = zip(tasks.values(), map_files(read, tasks), strict=True)
    return {task: reports for task, reports in found if reports is not None}


def other_jobs(location: Location, conversion: ConversionId) -> list[str]:
    """Return the jobs of other conversions that were interrupted in the same directory."""
    matches = filter(None, map(_NAME.fullmatch, location.list_names()))
    return sorted({match["job"] for match in matches} - {conversion.job})


def check_no_other(location: Location, conversion: ConversionId) -> None:
    """Raise DatasetExistsError if another conversion was interrupted in the same directory."""
    if other_jobs(location, conversion):
        raise DatasetExistsError(
            f"{location.url} holds part of an interrupted conversion of another source, of a "
            "source that has changed since, or with other options. Run that conversion again to "
            "finish it, choose another directory, or start over with resume=False (--no-resume)"
        )
