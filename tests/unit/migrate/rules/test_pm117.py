"""PM117: attributes of Petastorm objects that mdstorm objects do not have."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.kit.migrating import check_held, check_moves, check_rewrite, each

from mdstorm import make_batch_reader
from mdstorm.fs_utils import FilesystemResolver
from mdstorm.local_disk_cache import LocalDiskCache
from mdstorm.reader_impl.shuffling_buffer import RandomShufflingBuffer
from mdstorm_migrate.petastorm.attributes import MISSING

READER = (
    "from petastorm import make_reader\n"
    "from petastorm.etl.dataset_metadata import load_row_groups\n"
    "from petastorm.fs_utils import FilesystemResolver, get_filesystem_and_path_or_paths\n"
    "from petastorm.reader import Reader\n"
)
LOADER = "from petastorm.pytorch import DataLoader\n"


@each(
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
    ("r = s.enter_context(make_reader(u))\nr._results_queue_reader", "r._results_queue_reader"),
    ("ps = load_row_groups(d)\n[p.row_group for p in ps]", "p.row_group"),
    ("r = make_reader(u)\nps = r.dataset.pieces\nfor p in ps:\n    p.read()", "p.read"),
    (
        "with make_reader(u) as r:\n    d = r.dataset\n    first, *rest = 1, 2\n"
        "    p = sorted(d.pieces)[0]\n    p.open()",
        "p.open",
    ),
    ("def f(p): p.read()\nf(make_reader(u).dataset.pieces[0])", "p.read"),
    ("r = FilesystemResolver(u)\nfs = r.filesystem()\nfs.read_parquet(p)", "fs.read_parquet"),
    ("fs = FilesystemResolver(u).filesystem()\nfs.read_parquet(p)", "fs.read_parquet"),
    ("fs, path = get_filesystem_and_path_or_paths(u)\nfs.pathsep", "fs.pathsep"),
    ("pair = get_filesystem_and_path_or_paths(u)\nfs, _ = pair\nfs.pathsep", "fs.pathsep"),
    ("Reader._normalize_shuffle_options(1, 2)", "Reader._normalize_shuffle_options"),
    ("def f(reader): reader._workers_pool", "reader._workers_pool"),
    ("def f(reader): reader._workers_pool = None", "reader._workers_pool"),
    ("def f(reader): getattr(reader, '_workers_pool', None)", "'_workers_pool'"),
    ("with c.make_torch_dataloader() as l: l.reader.reset()", "l.reader"),
    ("m = c.make_tf_dataset()\nd = m.__enter__()\nm.reader.stop()", "m.reader"),
    ("l = c.make_torch_dataloader() if x else None\nl.data_loader_fn", "l.data_loader_fn"),
    ("class R(Reader):\n    def _create_ventilator(self): 1", "_create_ventilator"),
    ("class R(Reader): pass\nclass S(R):\n    def f(self): self.ventilator", "self.ventilator"),
)
def test_use_of_attribute_missing_in_mdstorm_blocks_migration(text: str, fragment: str) -> None:
    check_held(READER + text, "PM117", fragment)


@each(
    "r = make_reader(u)\nr.dataset.pieces, r.schema, r.diagnostics\n",
    "class L(DataLoader):\n    def _iter_impl(self): yield self._shuffling_buffer\n",
    "l = DataLoader(make_reader(u))\nl.reader\n",
    "class Mine:\n    ventilator = 1\n    def f(self): self.ventilator\n",
    "d = make_reader(u).dataset\nfor p in d.pieces: p.path\nlen(d.pieces), d.paths\n",
    "def rows(p): p.read()\nrows(open(x))\n",
    "p.read() if pieces else dataset.metadata\n",
    "class Mine:\n    def __init__(self): self._workers_pool = 3\n"
    "    def f(self): return self._workers_pool\n",
    "def f(loader):\n    d = loader.dataset\n    d.metadata\n",
    "reader = opened()\nreader.dataset.metadata\n",
    # methods of PyArrow's old file systems that fsspec also has
    "fs = FilesystemResolver(u).filesystem()\n"
    "fs.exists(p), fs.ls(p), fs.walk(p), fs.isfile(p), fs.delete(p, recursive=True)\n",
)
def test_use_of_attribute_available_in_mdstorm_does_not_block_migration(text: str) -> None:
    check_moves(READER + LOADER + text)


def test_attribute_table_matches_objects(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    reader = make_batch_reader(f"file://{tmp_path}", num_epochs=1)
    objects = {
        "make_batch_reader": reader,
        "dataset": reader.dataset,
        "pieces": reader.dataset.pieces[0],
        "filesystem": FilesystemResolver(f"file://{tmp_path}").filesystem(),
        "LocalDiskCache": LocalDiskCache(str(tmp_path / "cache"), 1 << 20, 10),
        "RandomShufflingBuffer": RandomShufflingBuffer(10, 5),
    }
    for name, one in objects.items():
        parts = MISSING[name]
        assert [part for part in parts if hasattr(one, part)] == []


IMPORT = "from petastorm.codecs import {0}\nfrom petastorm.unischema import UnischemaField\n"
FIELD = 'UnischemaField("x", np.float32, (), {0}, False)\n'


@each("DataframeColumnCodec", "ScalarCodec", "CompressedImageCodec")
def test_subclass_of_codec_blocks_migration(codec: str) -> None:
    text = f"{IMPORT.format(codec)}\nclass Own({codec}):\n    pass\n\n\n{FIELD.format('Own()')}"
    check_held(text, "PM117", "Own")


@each(
    ("class Own:\n    pass\n", "Own()", "Own()"),
    ("import acme.codecs as c\n", "c.Jpeg2000()", "c.Jpeg2000()"),
)
def test_field_with_own_codec_blocks_migration(head: str, codec: str, name: str) -> None:
    text = f"{head}from petastorm.unischema import UnischemaField\n{FIELD.format(codec)}"
    check_held(text.replace("False", "nullable=False"), "PM117", name)


@each("None", "ScalarCodec(IntegerType())", "made()", "codec")
def test_field_with_petastorm_or_unknown_codec_does_not_block_migration(codec: str) -> None:
    check_moves(
        "from acme.compat import ScalarCodec, made\n"
        f"from petastorm.unischema import UnischemaField\n{FIELD.format(codec)}"
    )


INDEXER = "from petastorm.etl.rowgroup_indexers import {0}\n\n\nclass Own({0}):\n    pass\n"


def test_subclass_of_indexer_base_blocks_migration() -> None:
    check_held(INDEXER.format("RowGroupIndexerBase"), "PM117", "Own")


@each("SingleFieldIndexer", "FieldNotNullIndexer")
def test_subclass_of_concrete_petastorm_indexer_is_migrated(base: str) -> None:
    check_rewrite(INDEXER.format(base), INDEXER.format(base).replace("petastorm", "mdstorm"))
