"""The Python in the documentation runs, and it and docstring examples print what they show.

The blocks on a page run in order and share their names, as if a reader pasted them into an empty
file. No name is defined for them, and only ``/tmp``, ``/dbfs`` and ``s3://bucket`` are replaced, by
the test's own directory. A block that needs names, which its first line lists, is not run.
The long tests also run each page as its reader does: as a program, in an environment with what the
page tells its readers to install, and without other variables.
"""

import doctest
import fcntl
import importlib
import inspect
import io
import logging
import os
import re
import shlex
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.conftest import of_values
from tests.kit.frameworks import import_framework
from tests.packaging.pages import SITE

from mdstorm.spark import SparkDatasetConverter

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
#: `docs/trainers.md` is tested in `tests.slow.trainers.test_documentation`, which has the
#: frameworks.
PAGES = [ROOT / "README.md", *(page for page in SITE if page != DOCS / "trainers.md")]
#: Folders with many pages, and the pages in them that also run in the short tests.
LONG = {"concepts", "how-to", "migrate"}
REPRESENTATIVE = {"resume.md", "several-processes.md"}
FENCE = "```python\n"
#: A comment above a block that is not run, because the block is the content of the named file.
FILE = r"<!-- file: (?P<file>\S+) -->\n"
#: The first line of a block that its reader cannot run alone. Names in backticks are not defined.
NEEDS = re.compile(r"# Needs: (.+)\n")
#: What a block prints, which the page shows after it and at most one sentence.
SHOWN = re.compile(r"\n(?:(?!```).+(?:\n.+)?:\n\n)?```text\n((?s:.*?))^```$", re.M)


def needed_names(block: str) -> set[str]:
    """Return the names that a block needs and does not define, as its first line lists them."""
    needs = NEEDS.match(block)
    return set() if needs is None else set(re.findall(r"`([\w.]+)`", needs[1]))


def all_blocks(page: Path) -> list[tuple[int, str, str | None]]:
    """Return the line number, text and shown output of every Python block that is no file."""
    text = page.read_text("utf-8")
    blocks = list(re.finditer(rf"^({FILE})?{FENCE}(?P<code>.*?)^```\n", text, re.M | re.S))
    # Check that no block is missed because its fence is written differently.
    assert len(blocks) == len(re.findall(r"^\s*[`~]{3,}[ \t]*(?:python|py)\b", text, re.M)), page
    return [
        (text.count("\n", 0, block.start("code")), block["code"], shown and shown[1])
        for block in blocks
        if block["file"] is None
        for shown in [SHOWN.match(text, block.end())]
    ]


def shown_blocks(page: Path) -> list[tuple[int, str, str | None]]:
    """Return the line number, text and shown output of every Python block that is run."""
    return [block for block in all_blocks(page) if not needed_names(block[1])]


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """Return the line number and text of every Python block that is run."""
    return [(line, block) for line, block, _ in shown_blocks(page)]


def runs_in_the_gate(page: Path) -> bool:
    return page.parent.name not in LONG or page.name in REPRESENTATIVE


def with_own_directories(block: str, tmp_path: Path) -> str:
    program = re.sub('"(file://|sqlite:///)?/(tmp|dbfs)/', rf'"\1{tmp_path}/', block)
    return re.sub('"(dbfs:|s3://bucket)/', f'"{tmp_path.as_uri()}/', program)


def run_page(page: Path, tmp_path: Path) -> None:
    """Run the blocks of a page in order, and check what they print where the page shows it."""
    names: dict[str, Any] = {"__name__": page.name}
    for line, block, shown in shown_blocks(page):
        program = with_own_directories(block, tmp_path)
        # Empty lines are prepended so that tracebacks show line numbers on the page.
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * line + program, page, "exec"), names)
        assert shown in (None, printed.getvalue()), f"the block at line {line} prints this"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@of_values
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, marks=() if runs_in_the_gate(p) else pytest.mark.long, id=name_of(p))
        for p in PAGES
        if python_blocks(p)
    ],
)
def test_python_blocks_on_pages_run(
    page: Path,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("mdstorm", "mdstorm_backend"):  # which a page silences: restored at the end
        caplog.set_level(logging.getLogger(name).level, logger=name)
    if page.name == "iceberg.md":
        import_framework("tests.kit.iceberg_tables")  # skips if pyiceberg cannot write tables
    if page.name == "mlflow.md":
        pytest.importorskip("alembic")  # the page installs it
        warnings.filterwarnings("ignore", "The ``noload`` loader")  # in MLflow's own queries
        monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts
    if page.name == "horovod.md":
        monkeypatch.syspath_prepend(ROOT / "tests" / "kit" / "stand_in")
        monkeypatch.setenv("HOROVOD_RANK", "1")
        monkeypatch.setenv("HOROVOD_SIZE", "2")
    # Undo the drop-ins that a page installs, because later tests' processes must not inherit them,
    # and the encodings that it registers.
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr("mdstorm_backend.format.encodings.registry._users", {})
    try:
        run_page(page, tmp_path)
    finally:
        spark.conf.unset(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF)


def test_pages_use_no_name_that_they_neither_define_nor_list_as_needed(tmp_path: Path) -> None:
    for page in [*PAGES, DOCS / "trainers.md"]:
        copied = tmp_path / page.relative_to(ROOT).with_suffix(".py")
        copied.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for _, block, _ in all_blocks(page):
            lines += [f"{name} = None" for name in needed_names(block) if name.isidentifier()]
            lines.append(block)
        copied.write_text("\n".join(lines), "utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", tmp_path]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


HOW_TOS = [page for page in PAGES if page.parent.name == "how-to" and python_blocks(page)]


@pytest.mark.parametrize("page", [PAGES[0], DOCS / "index.md", *HOW_TOS], ids=name_of)
def test_pages_show_what_their_program_prints(page: Path) -> None:
    assert [shown for *_, shown in shown_blocks(page) if shown]


#: What `pip install` commands install, for readers who have followed the README.
COMMAND = re.compile(r"^\$ pip install (.+)$|`pip install ([^`]+)`", re.M)
#: Pages whose libraries cannot be installed here.
NOT_INSTALLED = {"horovod.md"}


def installed_for(page: Path) -> tuple[str, ...]:
    """Return what a reader of a page has installed, as arguments of `pip install`.

    A command in a block starts in an empty environment, and others add to what the README installs.
    """
    found: set[str] = set()
    is_complete = False
    for line, inline in COMMAND.findall(page.read_text("utf-8")):
        words = shlex.split(line or inline, comments=True)
        if "--index-url" not in words:
            found |= {word for word in words if re.match(r"[a-z]", word)}
            is_complete = is_complete or bool(line)
    extras = {
        extra for one in found for extra in re.findall(r"[\w-]+", one.partition("mdstorm[")[2])
    }
    extras |= set() if is_complete else {"spark", "torch"}
    others = {one for one in found if not one.startswith("mdstorm")}
    if "tf" in extras:
        extras.remove("tf")
        others.add("tensorflow-cpu")  # the extra without its GPU code
    return f".[{','.join(sorted(extras))}]", *sorted(others)


def environment_with(wanted: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with these libraries, which all processes of a test run share."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    target = shared / re.sub(r"\W+", "-", " ".join(wanted)).strip("-")
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            command = ["scripts/make_venv.sh", target, "--constraint", "constraints/dev.txt"]
            environment = {**os.environ, "PYTHON": sys.executable}
            subprocess.run([*command, "--editable", *wanted], cwd=ROOT, env=environment, check=True)
    return target


@pytest.mark.long
@pytest.mark.newest
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page))
        for page in PAGES
        if python_blocks(page) and page.name not in NOT_INSTALLED
    ],
)
def test_page_runs_with_what_its_reader_has_installed(
    page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    environment = environment_with(installed_for(page), tmp_path_factory)
    program = "\n".join(block for _, block in python_blocks(page))
    for name in ("home", "work", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "page.py").write_text(with_own_directories(program, tmp_path), "utf-8")
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
    variables = {
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "temporary"),
        "SPARK_LOCAL_IP": "127.0.0.1",  # Spark looks up the host's address
    }
    done = subprocess.run(
        ["python", "../page.py"],
        cwd=tmp_path / "work",
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@of_values
def test_documented_resume_program_reads_each_row_once_per_epoch(
    spark: SparkSession, tmp_path: Path
) -> None:
    (_, program), *_ = python_blocks(DOCS / "how-to" / "resume.md")
    program = with_own_directories(program, tmp_path).replace("step += 1", "step += 1; on(step)")
    trained: list[list[int]] = []
    # Stop at the end of an epoch, at a checkpoint, and in between.
    stops = iter([49, 50, 100, 120, 200, 300])

    def run() -> None:
        stop = next(stops, None)

        def on(step: int) -> None:
            del trained[step - 1 :]  # the model is reset to its checkpoint
            trained.append(names["batch"]["id"].tolist())
            if step == stop:
                raise KeyboardInterrupt

        names: dict[str, Any] = {"on": on}
        exec(program, names)

    for _ in range(6):
        with pytest.raises(KeyboardInterrupt):
            run()
    run()
    epochs = [chain.from_iterable(trained[first : first + 100]) for first in (0, 100, 200)]
    assert [sorted(epoch) for epoch in epochs] == [[*range(1000)]] * 3


#: Modules whose public names have examples in their docstrings.
MODULES = [
    *("mdstorm", "mdstorm.etl.dataset_metadata", "mdstorm.ngram", "mdstorm.predicates"),
    *("mdstorm.pytorch", "mdstorm.reader", "mdstorm.spark", "mdstorm.tf_utils"),
    *("mdstorm.transform", "mdstorm.unischema", "mdstorm.weighted_sampling_reader"),
    *("mdstorm_backend", "mdstorm_migrate"),
]


def examples() -> dict[str, tuple[object, str]]:
    """Return objects with examples and their docstrings, by name, listing each object only once."""
    found: dict[str, tuple[object, str]] = {}
    for module in map(importlib.import_module, MODULES):
        names = {name: getattr(module, name) for name in module.__all__}
        for owner in [name for name, value in names.items() if inspect.isclass(value)]:
            methods = inspect.getmembers(names[owner], inspect.isfunction)
            names |= {f"{owner}.{name}": value for name, value in methods if name[0] != "_"}
        for name, value in names.items():
            text = inspect.getdoc(value) or ""
            if ">>>" in text and all(value is not other for other, _ in found.values()):
                found[f"{module.__name__}.{name}"] = value, text
    return found


def test_docstrings_of_public_names_have_examples() -> None:
    assert python_blocks(PAGES[0])
    assert {"mdstorm.make_batch_reader", "mdstorm_backend.open_dataset"} <= examples().keys()
    loaders = {"make_torch_dataloader", "make_tf_dataset"}
    assert {f"mdstorm.spark.SparkDatasetConverter.{name}" for name in loaders} <= examples().keys()


def failures(name: str, folder: Path, **given: object) -> str:
    """Return the differences between a name's examples and their actual output."""
    value, text = examples()[name]
    here, there = value.__module__, max((m for m in MODULES if name.startswith(m)), key=len)
    modules = [vars(importlib.import_module(module)) for module in (here, there)]
    names = {**modules[0], **modules[1], **given}
    test = doctest.DocTestParser().get_doctest(
        with_own_directories(text, folder), names, name, None, None
    )
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    return "".join(said)


def names(with_spark: bool) -> list[str]:
    uses = re.compile(r"^(?:>>>|\.\.\.).*\bspark[.,]", re.M)
    return [name for name, (_, t) in examples().items() if bool(uses.search(t)) is with_spark]


@pytest.mark.parametrize("name", names(with_spark=False))
def test_docstring_examples_print_the_shown_output(name: str, tmp_path: Path) -> None:
    assert not failures(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", names(with_spark=True))
def test_docstring_examples_with_spark_print_the_shown_output(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    assert not failures(name, tmp_path, spark=spark)
