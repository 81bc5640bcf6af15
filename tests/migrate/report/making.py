"""Reports of a few files, as the command makes them."""

from pathlib import Path

from mdstorm_migrate.report.content import FileReport, Report
from mdstorm_migrate.run.discover import Skipped, discover
from mdstorm_migrate.run.outcome import Settings
from mdstorm_migrate.run.together import run

#: One edit, one edit to review, one place that needs manual review, one note.
MIXED = """\
from petastorm import make_reader
getLogger("petastorm.reader")
from petastorm.unischema import _fullmatch

make_reader(url, **options)
"""
HOSTILE = "import petastorm.spark  # </script><script>document.title = 'owned'</script>\n"


def report_of(root: Path, *, write: bool = False, unsafe: bool = False) -> Report:
    settings = Settings(unsafe=unsafe)
    report = Report(settings, write)
    found = list(discover([root]))
    report.skipped += [one for one in found if isinstance(one, Skipped)]
    for outcome in run(found, settings, write=write):
        report.totals.add(outcome)
        report.files.append(FileReport(outcome))
    return report


def report_of_text(root: Path, text: str | bytes, name: str = "a.py") -> Report:
    (root / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return report_of(root)
