"""Files that read the copy of a converter which another file has made.

They need not mention Petastorm: ``pq.read_table(converter.file_urls)``. With mdstorm, the copy is
MDS, so they wait together with the file that makes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mdstorm_migrate.base.surroundings import Surroundings
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.files import LARGEST, FileOutcome, examine_file
from mdstorm_migrate.run.import_lines import graph_of, read_imports
from mdstorm_migrate.run.pool import each
from mdstorm_migrate.run.settings import Settings

_MAKES = b"make_spark_converter"
_READS = re.compile(rb"\.(?:cache_dir_url|file_urls)\b")


def reading_copies(
    outcomes: Sequence[FileOutcome], paths: Sequence[Path], settings: Settings, jobs: int = 1
) -> list[FileOutcome]:
    """Return what would become of the files that read copies and do not mention Petastorm.

    Parameters
    ----------
    outcomes : sequence of FileOutcome
        Of the files that mention Petastorm.
    paths : sequence of Path
        All files of the run.
    settings : Settings
    jobs : int
        How many processes work.
    """
    makers = {one.path for one in outcomes if _MAKES in one.outcome.before}
    known = {one.path for one in outcomes}
    left = [path for path in paths if path.suffix in CODE and path not in known]
    reading = list(each(_reads_copies, left, jobs)) if makers else []
    if not reading:
        return []
    graph = graph_of(each(read_imports, left, jobs), outcomes)
    reading = [path for path in reading if graph.reached_by_patch(path) & makers]
    around = Surroundings(takes_converters=True)
    found = each(partial(examine_file, settings=settings, around=around), reading, jobs)
    return [one for one in found if one.outcome.stays is not None]


def _reads_copies(path: Path) -> Path | None:
    try:
        data = b"" if path.stat().st_size > LARGEST else path.read_bytes()
    except OSError:
        return None
    return path if _READS.search(data) else None
