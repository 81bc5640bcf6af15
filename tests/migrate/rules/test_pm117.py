"""Parts of Petastorm's objects that mdstorm's lack."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm import make_batch_reader
from mdstorm.fs_utils import FilesystemResolver
from mdstorm.local_disk_cache import LocalDiskCache
from mdstorm.reader_impl.pytorch_shuffling_buffer import (
    BatchedNoopShufflingBuffer,
    BatchedRandomShufflingBuffer,
)
from mdstorm.reader_impl.shuffling_buffer import RandomShufflingBuffer
from mdstorm.workers_pool.thread_pool import ThreadPool
from mdstorm_migrate.petastorm.parts import LACKING

READER = "from petastorm import make_reader\n"
LOADER = "from petastorm.pytorch import DataLoader\n"


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("r = make_reader(u)\nr._workers_pool", "r._workers_pool"),
        ("with make_reader(u) as r:\n    r.ventilator", "r.ventilator"),
        ("def f(reader):\n    ds = reader.dataset\n    ds.metadata", "ds.metadata"),
        ("def f(my_reader):\n    for p in my_reader.dataset.pieces: p.open()", "p.open"),
        (
            "class A:\n  def __init__(self, reader): self._reader = reader\n"
            "  def f(self): d = self._reader.dataset; d.partitions",
            "d.partitions",
        ),
        (
            "class A:\n  def f(self):\n    self.r = make_reader(u).__enter__()\n"
            "  def g(self): self.r.ventilator",
            "self.r.ventilator",
        ),
        (
            "r = stack.enter_context(make_reader(u))\nr._results_queue_reader.x",
            "r._results_queue_reader",
        ),
        ("r = make_reader(u)\nr.dataset.metadata", "r.dataset.metadata"),
        (
            "r = make_reader(u)\nr.dataset.pieces[0].get_metadata()",
            "r.dataset.pieces[0].get_metadata",
        ),
        ("sum(p.get_metadata().num_rows for p in r.dataset.pieces)", "p.get_metadata"),
        (
            "from petastorm.etl.dataset_metadata import load_row_groups\n"
            "ps = load_row_groups(ParquetDataset(u))\n[p.row_group for p in ps]",
            "p.row_group",
        ),
        (
            "from petastorm.etl.dataset_metadata import load_row_groups\n"
            "for p in load_row_groups(ParquetDataset(u)):\n    print(p.path, p.read())",
            "p.read",
        ),
        ("for p in r.dataset.pieces:\n    p.read()", "p.read"),
        ("r = make_reader(u)\nps = r.dataset.pieces\nfor p in ps:\n    p.read()", "p.read"),
        ("d = make_reader(u).dataset\nd.metadata", "d.metadata"),
        (
            "with make_reader(u) as r:\n    d = r.dataset\n    first, *rest = 1, 2\n"
            "    p = sorted(d.pieces)[0]\n    p.open()",
            "p.open",
        ),
        (
            "def rows(pieces): return sum(p.get_metadata().num_rows for p in pieces)\n"
            "rows(make_reader(u).dataset.pieces)",
            "p.get_metadata",
        ),
        (
            "class A:\n    def f(self): self.d = make_reader(u).dataset\n"
            "    def g(self):\n        for n, p in enumerate(self.d.pieces): p.read()",
            "p.read",
        ),
        (
            "from petastorm.fs_utils import FilesystemResolver as F\nr = F(u)\n"
            "fs = r.filesystem()\nfs.read_parquet(p)",
            "fs.read_parquet",
        ),
        (
            "from petastorm.fs_utils import get_filesystem_and_path_or_paths as g\n"
            "fs, path = g(u)\nfs.pathsep",
            "fs.pathsep",
        ),
        (
            "import petastorm.reader as q\nq.Reader._normalize_shuffle_options(1, 2)",
            "q.Reader._normalize_shuffle_options",
        ),
        ("def f(reader): reader._workers_pool", "reader._workers_pool"),
        ("with c.make_torch_dataloader() as l: l.reader.reset()", "l.reader"),
        ("m = c.make_torch_dataloader()\nwith m as l: l.reader", "l.reader"),
        ("m = c.make_torch_dataloader()\nl = s.enter_context(m)\nl.reader", "l.reader"),
        ("l = c.make_torch_dataloader() if x else None\nl.data_loader_fn", "l.data_loader_fn"),
        (
            "from petastorm.reader import Reader\n"
            "class R(Reader):\n    def _create_ventilator(self): 1",
            "_create_ventilator",
        ),
        (
            "from petastorm.reader import Reader\nclass R(Reader): pass\nclass S(R):\n"
            "    def f(self): self.ventilator",
            "self.ventilator",
        ),
    ],
)
def test_their_file_waits(text: str, fragment: str) -> None:
    check_noop(READER + text)
    check_finding(READER + text, "PM117", fragment)


@pytest.mark.parametrize(
    "text",
    [
        "r = make_reader(u)\nr.dataset.pieces, r.schema, r.diagnostics\n",
        "class L(DataLoader):\n    def _iter_impl(self): yield self._shuffling_buffer\n",
        "l = DataLoader(make_reader(u))\nl.reader\n",
        "class Mine:\n    ventilator = 1\n    def f(self): self.ventilator\n",
        "r = other()\nr.ventilator\n",
        "d = make_reader(u).dataset\nfor p in d.pieces: p.path\nlen(d.pieces), d.paths\n",
        "d = make_reader(u).dataset\nif x: d = torch_dataset()\nd.metadata\n",
        "def rows(p): p.read()\nrows(make_reader(u).dataset.pieces[0])\nrows(open(x))\n",
        "p.read() if pieces else dataset.metadata\n",
        "def f(loader):\n    d = loader.dataset\n    d.metadata\n",
        "reader = csv.reader(f)\nd = reader.dataset\nd.metadata\n",
    ],
)
def test_what_mdstorm_has_and_what_is_not_ours_moves(text: str) -> None:
    text = READER + LOADER + text
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


def test_the_file_systems_methods_of_old_pyarrow_that_are_fsspecs_too_move() -> None:
    text = (
        "from petastorm.fs_utils import FilesystemResolver\n"
        "fs = FilesystemResolver(u).filesystem()\n"
        "fs.exists(p), fs.ls(p), fs.walk(p), fs.isfile(p), fs.delete(p, recursive=True)\n"
    )
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


def test_the_table_is_true(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    reader = make_batch_reader(f"file://{tmp_path}", num_epochs=1)
    objects = {
        "make_batch_reader": reader,
        "reader.dataset": reader.dataset,
        "piece": reader.dataset.pieces[0],
        "filesystem": FilesystemResolver(f"file://{tmp_path}").filesystem(),
        "ThreadPool": ThreadPool(2),
        "LocalDiskCache": LocalDiskCache(str(tmp_path / "cache"), 1 << 20, 10),
        "RandomShufflingBuffer": RandomShufflingBuffer(10, 5),
        "BatchedNoopShufflingBuffer": BatchedNoopShufflingBuffer(),
        "BatchedRandomShufflingBuffer": BatchedRandomShufflingBuffer(10, 5),
    }
    for name, one in objects.items():
        assert [part for part in LACKING[name] if hasattr(one, part)] == []
