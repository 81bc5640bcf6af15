"""PM102: uses of the name `petastorm`."""

from tests.kit.migrating import check_moves, check_noop, check_rewrite, each


@each(
    "import petastorm\nreader = petastorm.make_reader(url)\nprint(petastorm.__version__)\n",
    "def f():\n    import petastorm\n    return lambda: [petastorm.make_reader(x) for x in y]\n",
    "import petastorm\nclass Loader(petastorm.pytorch.DataLoader):\n"
    "    spec = petastorm.TransformSpec()\n",
    'import petastorm\nx = f"{petastorm.make_reader!r} {petastorm.reader}"\n',
    "import petastorm\nwith petastorm.make_reader(u) as a, \\\n"
    "     petastorm.make_reader(v) as b:\n  pass\n",
    "import petastorm\ndel petastorm\n",
    "import petastorm\nx = (petastorm\n     .spark\n     .make_spark_converter(df))\n",
    "# é\nimport petastorm\nä = 'ü'; petastorm.make_reader('😀'); petastorm.make_batch_reader\n",
)
def test_uses_of_import_are_renamed(text: str) -> None:
    check_moves(text)


@each(
    (
        "import petastorm\npetastorm.make_reader(url)\npetastorm.hdfs.namenode\n",
        "import petastorm\nimport mdstorm\nmdstorm.make_reader(url)\npetastorm.hdfs.namenode\n",
    ),
    (
        "if x: import os, petastorm\npetastorm.make_reader(url), petastorm._private\n",
        "if x: import os, petastorm, mdstorm\nmdstorm.make_reader(url), petastorm._private\n",
    ),
)
def test_use_without_counterpart_keeps_import_of_petastorm(before: str, after: str) -> None:
    check_rewrite(before, after, todo=False, unsafe=True)


def test_suppressed_use_leaves_whole_file_unchanged() -> None:
    text = "import petastorm\npetastorm.make_reader{}\npetastorm.spark\n"
    check_noop(text.format("  # mdstorm: ignore[PM102]"))
    check_noop(text.format(""), ignore=["PM102"])
