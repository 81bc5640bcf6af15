"""PM001: lines that still mention Petastorm."""

from tests.kit.migrating import check_noop, each

from mdstorm_migrate.api import migrate

CODE = "PM001"


def mentions(text: str, path: str | None = None) -> list[int]:
    """Return the lines with a PM001 note."""
    result = migrate(text, path=path, todo=False)
    return [found.line for found in result.findings if found.rule == CODE]


@each(
    # in a multi-line string, lines that another rule reports get no note
    ("a.py", 'INIT = """#!/bin/sh\npip install petastorm\nrun petastorm\n"""\n', 3),
    # several mentions on one line get one note
    ("a.py", 'names = ["petastorm", "petastorm"]\n', 1),
    # a tuple that contains both libraries gets no note
    ("a.py", 'NAMES = ("petastorm", "mdstorm")\nOLD = "petastorm"\n', 2),
    # in a notebook in another language, comments get no note
    (
        "a.scala",
        "// Databricks notebook source\n// petastorm's cache\n// COMMAND ----------\n"
        "// MAGIC %python\n// MAGIC from petastorm import make_reader  # petastorm\n",
        5,
    ),
    (
        "a.sql",
        "-- Databricks notebook source\n-- petastorm's cache\nSELECT petastorm -- petastorm\n",
        3,
    ),
)
def test_file_that_mentions_petastorm_gets_note_with_line(path: str, text: str, line: int) -> None:
    assert mentions(text, path) == [line]


@each(
    ("a.py", 'BACKENDS = ["petastorm", "tfrecord"]\n'),
    ("a.py", 'if backend == "petastorm": pass\n'),
    ("a.py", 'print("reading with petastorm")\n'),
    ("a.py", 'VERSIONS = {"petastorm": "0.9"}\n'),
    ("a.py", "reader = loaders.petastorm.make()\n"),
    ("a.py", "from .loaders import petastorm\n"),
    ("a.py", 'ignore(message=r".*petastorm\\.fs_utils.*")\n'),
    ("a.sh", "curl https://host/petastorm-$VERSION.whl\n"),
    ("job.yaml", "backend: petastorm\n"),
    ("notes.txt", "We load with petastorm.\n"),
    ("A.scala", 'val name = "petastorm"\n'),
    ("a.py", '""">>> from petastorm import make_reader"""\n'),
    ("a.py", 'add_argument("--x", help="see petastorm-copy-dataset.py")\n'),
    (".gitmodules", "url = https://github.com/uber/petastorm.git\n"),
    ("run.sh", "export PYTHONPATH=$PETASTORM_DIR:$PYTHONPATH\n"),
    ("requirements.txt", "# petastorm==0.12.1\n"),
    ("Dockerfile", "RUN sed -i s/a/b/ /usr/lib/python3.11/site-packages/petastorm/unischema.py\n"),
    ("Dockerfile", "COPY --from=build /x/site-packages/petastorm /x/site-packages/petastorm\n"),
    ("BUILD.bazel", 'deps = ["@pypi//petastorm"]\n'),
    ("shell.nix", "python311.withPackages (p: [ p.petastorm ])\n"),
    ("compose.yaml", "build: {args: {PETASTORM_VERSION: 0.12.1}}\n"),
    ("Makefile", "PETASTORM_VERSION ?= 0.12.1\n"),
    ("a.py", 'version = os.environ["PETASTORM_VERSION"]\n'),
    ("a.txt", "loader.fn = @petastorm.reader.make_reader\n"),
)
def test_mention_of_petastorm_is_noted_and_unchanged(path: str, text: str) -> None:
    assert mentions(text, path) == [1]
    check_noop(text, path)


@each(
    ("a.py", 'cache = "/tmp/petastorm/cache"\n'),
    ("a.py", 'def f():\n    """Reads with petastorm."""\n'),
    ("a.py", "x = 1  # petastorm\n"),
    ("a.py", 'config.addinivalue_line("markers", "petastorm: slow")\n'),
    ("a.py", "@pytest.mark.petastorm\ndef test(): ...\n"),
    ("a.py", "class A:\n    def f(self, args): self.petastorm = args.petastorm\n"),
    ("a.py", 'p.add_argument("--x", help="threads that petastorm reads with")\n'),
    ("a.py", 'petastorm_reader = "my_petastorm", "petastorm-demo", "mine.petastorm.b"\n'),
    ("a.sh", "# petastorm\ncp /data/petastorm/a b\ndocker pull registry/petastorm:1\n"),
    ("a.md", "We load with petastorm.\n"),
    # mentions that other rules report
    ("a.py", 'import importlib\nimportlib.import_module("petastorm.reader")\n'),
    ("requirements.txt", "petastorm==0.9\n"),
    ("a.sh", "pip install petastorm\n"),
)
def test_mention_in_comment_or_own_name_or_with_other_finding_is_not_noted(
    path: str, text: str
) -> None:
    assert mentions(text, path) == []


def test_note_for_long_line_is_truncated() -> None:
    text = f"    backend: petastorm {'x' * 200}\n"
    (found,) = migrate(text, path="a.yaml").findings
    assert found.message.endswith(f": backend: petastorm {'x' * 61} …")


def test_mentions_after_the_tenth_are_summarized_in_one_note() -> None:
    text = "".join(f"- petastorm {number}\n" for number in range(2_000))
    found = migrate(text, path="notes.txt").findings
    assert [one.line for one in found] == list(range(1, 12))
    assert found[-1].message.startswith("1,990 more lines")
