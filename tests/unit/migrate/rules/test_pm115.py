"""PM115: local files and folders named `petastorm` that shadow the library."""

from pathlib import Path

from tests.kit.migrating import check_moves, check_noop, check_rewrite, each, write_files

from mdstorm_migrate.api import migrate

READS = "from petastorm import make_reader\n"
MOVED = "from mdstorm import make_reader\n"


def test_import_next_to_petastorm_py_needs_manual_review(tmp_path: Path) -> None:
    (tmp_path / "petastorm.py").touch()
    script = str(tmp_path / "script.py")
    for text in ("import petastorm\npetastorm.run()\n", "from petastorm import Engine\n"):
        check_noop(text, script)
        (found,) = migrate(text, path=script).findings
        assert found.rule == "PM115"
    check_rewrite("from petastorm.spark import make_spark_converter\n",
                  "from mdstorm.spark import make_spark_converter\n", script)  # fmt: skip


def test_import_next_to_petastorm_package_is_unchanged(tmp_path: Path) -> None:
    write_files(tmp_path, {"petastorm/__init__.py": ""})
    check_noop("from petastorm.spark import make_spark_converter\n", str(tmp_path / "script.py"))


def test_import_inside_own_petastorm_package_gets_note(tmp_path: Path) -> None:
    write_files(tmp_path, {"setup.cfg": "", "petastorm/__init__.py": "from .io import read\n"})
    write_files(tmp_path, {"petastorm/io.py": ""})
    script = str(tmp_path / "petastorm" / "tracker.py")
    for text in ("from petastorm import io", "from petastorm import read", "import petastorm"):
        result = check_noop(f"{text}\n", script)
        assert [(one.rule, one.cls) for one in result.findings] == [("PM115", "note")]
    check_moves("from petastorm.spark import make_spark_converter\n", script)


COPY = {
    "__init__.py": "from petastorm.reader import make_reader\n__version__ = '0.9.8+own'\n",
    "reader.py": "def make_reader(url, token=None): ...\n",
}


@each(
    ("third_party", ""),
    ("src", ""),
    (".", ""),
    ("ml/own", "import sys\nsys.path.insert(0, os.path.join(HERE, '..', 'ml/own'))\n"),
)
def test_import_with_vendored_copy_needs_manual_review(
    place: str, head: str, tmp_path: Path
) -> None:
    write_files(tmp_path / place / "petastorm", COPY)
    script = str(tmp_path / "app" / "main.py")
    text = f"{head}from petastorm import make_reader\nmake_reader(url, token=TOKEN)\n"
    check_noop(text, script)
    (found,) = migrate(text, path=script).findings
    assert (found.rule, found.cls) == ("PM115", "manual")
    assert "the copy of Petastorm in" in found.message
    # the copy's files are unchanged and get only a note
    inside = str(tmp_path / place / "petastorm" / "reader.py")
    result = check_noop("from petastorm.reader import make_reader\n", inside)
    assert [one.cls for one in result.findings] == ["note"]


@each(
    ({"acme/petastorm/__init__.py": ""}, "acme/jobs.py"),
    ({"acme/petastorm/__init__.py": "from petastorm import make_reader"}, "acme/jobs/a.py"),
    ({"acme/__init__.py": "", **{f"acme/petastorm/{k}": v for k, v in COPY.items()}}, "a.py"),
    ({f"tests/stubs/petastorm/{name}": text for name, text in COPY.items()}, "src/a.py"),
    # a folder above the repository
    ({"p/.git/x": "", **{f"petastorm/{k}": v for k, v in COPY.items()}}, "p/app/main.py"),
    # a Databricks notebook, which cannot be imported
    ({"petastorm.py": "# Databricks notebook source\nx = 1\n"}, "train.py"),
    # the file `petastorm.py` itself
    ({"petastorm.py": ""}, "petastorm.py"),
    # modules in a package do not import files next to them as `petastorm`
    ({"petastorm.py": "", "__init__.py": ""}, "module.py"),
)
def test_folder_that_does_not_shadow_import_is_not_reported_as_copy(
    files: dict[str, str], path: str, tmp_path: Path
) -> None:
    write_files(tmp_path, {**files, "acme/jobs/__init__.py": ""})
    script = str(tmp_path / path)
    if path == "acme/jobs.py":  # this module imports the package next to it
        check_noop(READS, script)
    else:
        check_rewrite(READS, MOVED, script)


def test_own_package_named_petastorm_gets_note_only(tmp_path: Path) -> None:
    own = {"__init__.py": "__version__ = '1'\n", "tracker.py": "class Tracker: ...\n"}
    write_files(tmp_path / "petastorm", own)
    text = "import petastorm\nfrom petastorm.tracker import Tracker\nprint(petastorm.io)\n"
    (found,) = check_noop(text, str(tmp_path / "run.py"), unsafe=True).findings
    assert (found.rule, found.cls, found.remedy) == ("PM115", "note", None)


def test_type_stubs_of_petastorm_are_unchanged(tmp_path: Path) -> None:
    text = "from petastorm.reader import Reader as Reader\n"
    for folder in ("petastorm", "petastorm-stubs"):
        file = tmp_path / folder / "__init__.pyi"
        write_files(file.parent, {file.name: text})
        check_noop(text, str(file), unsafe=True)
        (found,) = migrate(text, path=str(file)).findings
        assert "stubs" in found.message
    check_moves(text, str(tmp_path / "ours.pyi"))
