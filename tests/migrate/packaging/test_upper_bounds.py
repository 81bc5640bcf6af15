"""What bounds pyarrow and NumPy where Petastorm stays beside mdstorm."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.migrate.checks import invoke

from mdstorm_migrate.cli.migrate import migrate

CODE = "from petastorm import make_reader\n"
VERSION = "import petastorm\nprint(petastorm.__version__ < '1')\n"


def after(directory: Path, name: str, text: str, *options: str) -> str:
    """Return what becomes of a list beside code that moves, and code that compares the version."""
    for path, content in ((name, text), ("a.py", CODE), ("b.py", VERSION)):
        (directory / path).write_text(content)
    done = invoke(migrate, "-w", "-q", "-j", "1", *options, directory)
    assert done.exit_code == 0, done.stderr
    return (directory / name).read_text()


@pytest.mark.parametrize(
    ("name", "before", "expected"),
    [
        ("requirements.txt", "{}\n", "mdstorm\npyarrow<15\nnumpy<2\n{}\n"),
        ("requirements.txt", "{}\nnumpy\n", "mdstorm\npyarrow<15\nnumpy<2\n{}\nnumpy\n"),
        ("requirements.txt", "{}\nnumpy<1.27\n", "mdstorm\npyarrow<15\n{}\nnumpy<1.27\n"),
        ("requirements.txt", "{}\nnumpy>=2.0\n", "mdstorm\n{}\nnumpy>=2.0\n"),
        ("requirements.txt", "{}\npyarrow==16.1\n", "mdstorm\n{}\npyarrow==16.1\n"),
        (
            "setup.cfg",
            "[options]\ninstall_requires =\n    {}\n",
            "[options]\ninstall_requires =\n    {}\n    mdstorm\n    pyarrow<15\n    numpy<2\n",
        ),
        (
            "environment.yml",
            "dependencies:\n  - pip:\n    - {}\n",
            "dependencies:\n  - pip:\n    - mdstorm\n    - pyarrow<15\n    - numpy<2\n    - {}\n",
        ),
        ("i.sh", "pip install {} x\n", 'pip install mdstorm "pyarrow<15" "numpy<2" {} x\n'),
    ],
)
def test_lists_with_both_have_what_petastorm_works_with(
    name: str, before: str, expected: str, tmp_path: Path
) -> None:
    text = before.replace("{}", "petastorm==0.12.1")
    moved = expected.replace("{}", "petastorm==0.12.1")
    assert after(tmp_path, name, text) == moved
    assert invoke(migrate, "-w", "-q", tmp_path).exit_code == 0
    assert (tmp_path / name).read_text() == moved


@pytest.mark.parametrize(
    ("numpy", "bounds"),
    [('numpy = "*"\n', ""), ('numpy = "^1.26"\n', 'pyarrow = "<15"\n')],
)
def test_tables_have_each_name_once(numpy: str, bounds: str, tmp_path: Path) -> None:
    text = f'[tool.poetry.dependencies]\n{numpy}petastorm = "*"\n'
    new = f'mdstorm = "*"\n{bounds}petastorm'
    assert after(tmp_path, "pyproject.toml", text) == text.replace("petastorm", new)


def test_a_pin_that_is_raised_keeps_an_upper_end(tmp_path: Path) -> None:
    text = "pyarrow==10.0.0\npetastorm==0.12.1\n"
    assert after(tmp_path, "requirements.txt", text) == text
    unsafe = after(tmp_path, "requirements.txt", text, "--unsafe")
    assert unsafe == "pyarrow>=14.0.1,<15\nmdstorm\nnumpy<2\npetastorm==0.12.1\n"


def test_a_pin_of_constraints_that_is_raised_bounds_nothing(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("pyarrow==10.0.0\n")
    text = "-c constraints.txt\npetastorm==0.12.1\n"
    unsafe = after(tmp_path, "requirements.txt", text, "--unsafe")
    assert unsafe.endswith("\nmdstorm\npyarrow<15\nnumpy<2\npetastorm==0.12.1\n")


def test_a_fallback_bounds_nothing(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("petastorm==0.12.1\n")
    code = "try:\n    from mdstorm import make_reader\nexcept ImportError:\n    {}"
    (tmp_path / "a.py").write_text(code.format(CODE))
    assert invoke(migrate, "-w", "-q", tmp_path).exit_code == 0
    assert (tmp_path / "requirements.txt").read_text() == "mdstorm\npetastorm==0.12.1\n"
