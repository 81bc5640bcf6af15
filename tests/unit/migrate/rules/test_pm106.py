"""PM106: names and arguments from old versions of Petastorm."""

from tests.kit.migrating import (
    check_finding,
    check_held,
    check_moves,
    check_noop,
    check_rewrite,
    each,
)


def test_class_renamed_by_petastorm_is_migrated_only_with_unsafe() -> None:
    text = "from petastorm.pytorch import BatchDataLoader, DataLoader as D\nBatchDataLoader(r)\n"
    check_finding(text, "PM106", "BatchDataLoader")
    check_noop(text)
    check_rewrite(
        text,
        "from mdstorm.pytorch import BatchedDataLoader as BatchDataLoader, DataLoader as D\n"
        "BatchDataLoader(r)\n",
        unsafe=True,
    )


@each(
    ("partial(make_reader, sequence=s)", "sequence=s"),
    ("await asyncio.to_thread(make_reader, u, shuffle=1)", "shuffle=1"),
    ("make_reader(url, shuffle_options=S(3))", "shuffle_options=S(3)"),
    ("args = {}\nargs['shuffle'] = True\nmake_reader(url, **args)", "'shuffle'"),
    ("args = dict(seed=1)\nargs.update(shuffle=1)\nmake_reader(url, **args)", "shuffle=1"),
    ("base = dict(shuffle=1)\nmake_reader(url, **{**base, 'seed': 1})", "shuffle=1"),
    ("base = dict(shuffle=1)\nmake_reader(url, **dict(base, seed=1))", "shuffle=1"),
    ("DataLoader(reader, transform=resize)", "transform=resize"),
    ("BatchedDataLoader(r, inmemory_cache_all=True)", "inmemory_cache_all=True"),
    ("materialize_dataset(spark, u, s, pyarrow_filesystem=f)", "pyarrow_filesystem=f"),
    ("make_batch_reader(u, None, 'thread', 10, False)", "False"),
    ("make_reader(u, None, 'thread', 10, False, 50, True, 1)", "True"),
    # keys that may also be unpacked into other calls are not renamed
    ("args = dict(dataset_url=u)\nmake_batch_reader(**args)", "dataset_url=u"),
)
def test_call_with_argument_from_old_version_blocks_migration(text: str, fragment: str) -> None:
    imports = (
        "from petastorm.reader import *\nfrom petastorm.pytorch import *\n"
        "from petastorm.etl.dataset_metadata import materialize_dataset\n"
    )
    check_held(imports + text, "PM106", fragment)


@each(
    "make_reader(u, None, 'thread', 10, False, 50)",
    "args = {'shuffle': 1}\nargs.pop('shuffle')\nmake_reader(u, **args)",
    "args = {'shuffle': 1}\ndel args['shuffle']\nmake_reader(u, **args)",
    "args = {}\nmake_reader(u, **args)\nother['shuffle'] = 1",
    "partial(train, make_reader, shuffle=True)",
    # loaders from other libraries
    "from torch.utils.data import DataLoader\nDataLoader(x, transform=y)",
)
def test_call_without_argument_from_old_version_is_migrated(text: str) -> None:
    check_moves(f"from petastorm import make_reader\n{text}\n")


def test_argument_with_different_name_in_mdstorm_is_renamed() -> None:
    text = "from petastorm import make_batch_reader, make_reader\n"
    text += "make_reader(dataset_url=u)\nmake_batch_reader(\n    dataset_url=u, num_epochs=1)\n"
    after = text.replace("from petastorm", "from mdstorm")
    check_rewrite(text, after.replace("    dataset_url=", "    dataset_url_or_urls="))
