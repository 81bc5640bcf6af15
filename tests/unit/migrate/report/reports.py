"""Reports about the files in a folder."""

from pathlib import Path

from tests.kit.migrating import run

from mdstorm_migrate.report.content import FileReport, Report
from mdstorm_migrate.run.discover import Skipped, discover
from mdstorm_migrate.run.outcome import Settings

#: A file with an exact edit, an edit to review, a place for manual review, and a note.
MIXED = """\
from petastorm import make_reader
getLogger("petastorm.reader")
from petastorm.unischema import _fullmatch

make_reader(url, **options)
"""


def report_of(root: Path, *, write: bool = False) -> Report:
    report = Report(Settings(), write)
    missing = [path for path in root.iterdir() if path.name == "gone.py"]
    found = list(discover([*missing, root]))  # a broken link is an error if it is passed explicitly
    report.skipped += [one for one in found if isinstance(one, Skipped)]
    report.files += map(FileReport, run(found, Settings(), write=write))
    return report


def report_of_text(root: Path, text: str | bytes, name: str = "a.py") -> Report:
    (root / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return report_of(root)
