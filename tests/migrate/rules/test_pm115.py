"""Neighbours that hide the library."""

from __future__ import annotations

from pathlib import Path

from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.api import migrate


def test_a_neighbouring_file_may_be_what_is_imported(tmp_path: Path) -> None:
    (tmp_path / "petastorm.py").touch()
    script = str(tmp_path / "script.py")
    for text in ("import petastorm\npetastorm.run()\n", "from petastorm import Engine\n"):
        check_noop(text, script)
        (found,) = migrate(text, path=script).findings
        assert found.rule == "PM115"
    check_rewrite("from petastorm.spark import make_spark_converter\n",
                  "from mdstorm.spark import make_spark_converter\n", script)  # fmt: skip


def test_the_file_itself_hides_nothing(tmp_path: Path) -> None:
    script = tmp_path / "petastorm.py"
    script.touch()
    check_rewrite(
        "from petastorm import make_reader\n", "from mdstorm import make_reader\n", str(script)
    )


def test_modules_of_a_package_do_not_see_their_neighbours(tmp_path: Path) -> None:
    (tmp_path / "petastorm.py").touch()
    (tmp_path / "__init__.py").touch()
    script = str(tmp_path / "module.py")
    check_rewrite(
        "from petastorm import make_reader\n", "from mdstorm import make_reader\n", script
    )


def test_a_neighbouring_package_hides_all(tmp_path: Path) -> None:
    (tmp_path / "petastorm").mkdir()
    (tmp_path / "petastorm" / "__init__.py").touch()
    script = str(tmp_path / "script.py")
    check_noop("from petastorm.spark import make_spark_converter\n", script)


def test_a_package_of_ones_own_imports_itself(tmp_path: Path) -> None:
    package = tmp_path / "petastorm"
    package.mkdir()
    (tmp_path / "setup.cfg").touch()
    (package / "__init__.py").write_text("from .io import read\n")
    (package / "io.py").touch()
    script = str(package / "tracker.py")
    for text in (
        "from petastorm.io import read_grib\n",
        "from petastorm import io\n",
        "from petastorm import read\n",
        "import petastorm\n",
    ):
        result = check_noop(text, script)
        assert [(one.rule, one.cls) for one in result.findings] == [("PM115", "note")]
    check_rewrite(
        "from petastorm.spark import make_spark_converter\n",
        "from mdstorm.spark import make_spark_converter\n",
        script,
    )
