"""A report's work list: the work that remains after a run's edits, and recipes for it."""

from __future__ import annotations

from typing import Any, NamedTuple

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.report.content import FileReport, Item, Report


class Recipe(NamedTuple):
    """Code that a rule reports, and code that does the same with mdstorm."""

    before: str
    after: str


#: Recipes by rule code. Tests run each `after` on a dataset at `url`.
RECIPES = {
    "PM107": Recipe(
        """\
from petastorm.arrow_reader_worker import ArrowReaderWorker
from petastorm.fs_utils import get_filesystem_and_path_or_paths
from petastorm.reader import Reader
from petastorm.workers_pool.thread_pool import ThreadPool

filesystem, path = get_filesystem_and_path_or_paths(url)
pool = ThreadPool(4)
reader = Reader(filesystem, path, worker_class=ArrowReaderWorker, reader_pool=pool, num_epochs=1)
with reader:
    batches = list(reader)
""",
        """\
from mdstorm import make_batch_reader

with make_batch_reader(url, workers_count=4, num_epochs=1) as reader:
    batches = list(reader)
""",
    ),
    "PM113": Recipe(
        """\
from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader

loader = DataLoader(make_batch_reader(url, num_epochs=1), batch_size=2, shuffle=True)
with loader:
    batches = list(loader)
""",
        """\
from mdstorm import make_batch_reader
from mdstorm.pytorch import DataLoader

reader = make_batch_reader(url, num_epochs=1)
with DataLoader(reader, batch_size=2, shuffling_queue_capacity=100) as loader:
    batches = list(loader)
""",
    ),
    "PM114": Recipe(
        """\
from petastorm import make_batch_reader


def open_reader(url):
    with make_batch_reader(url, num_epochs=1) as reader:
        return reader


batches = list(open_reader(url))
""",
        """\
from mdstorm import make_batch_reader


def open_reader(url):
    return make_batch_reader(url, num_epochs=1)


with open_reader(url) as reader:
    batches = list(reader)
""",
    ),
    "PM117": Recipe(
        """\
from petastorm import make_batch_reader

with make_batch_reader(url, num_epochs=1) as reader:
    batches = list(reader)
    print(reader._workers_pool.diagnostics)
""",
        """\
from mdstorm import make_batch_reader

with make_batch_reader(url, num_epochs=1) as reader:
    batches = list(reader)
    print(reader.diagnostics)
""",
    ),
    "PM118": Recipe(
        """\
from petastorm.pytorch import BatchedDataLoader


def is_loader(one):
    return isinstance(one, BatchedDataLoader)
""",
        """\
from torch.utils.data import DataLoader


def is_loader(one):
    return isinstance(one, DataLoader)
""",
    ),
}


def work_list(report: Report) -> list[dict[str, Any]]:
    """Return the work that remains after the edits, as JSON values: all findings except notes."""
    return [
        _entry(file, item)
        for file, item in report.items()
        if isinstance(item.found, Finding) and item.found.cls != "note"
    ]


def _entry(file: FileReport, item: Item) -> dict[str, Any]:
    found = item.found
    recipe = RECIPES.get(found.rule)
    return {
        "file": file.path,
        "cell": found.cell,
        "line": found.line,
        "rule": found.rule,
        "class": found.cls,
        "why": item.text,
        "recipe": None if recipe is None else recipe._asdict(),
    }
