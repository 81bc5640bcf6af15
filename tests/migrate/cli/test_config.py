"""What a project asks for in its ``pyproject.toml``."""

from pathlib import Path

import pytest
from tests.migrate.checks import invoke, write_modules

from mdstorm_migrate.cli.migrate import migrate as command

BEFORE = "from petastorm import make_reader\n"
OLD = "from petastorm.pytorch import BatchDataLoader\n"


def summary(*arguments: object) -> str:
    """Return what the command says beside the diff."""
    return invoke(command, *arguments).stderr


def test_the_configuration_of_a_project_is_read(tmp_path: Path) -> None:
    write_modules(tmp_path, a=OLD, b=BEFORE, c_test=BEFORE)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.mdstorm.migrate]\nunsafe = true  # yes\nexclude = ["*_test.py"]\n'
        'select = ["pm1"]\nignore = [\n    "PM103",\n]\n[tool.other]\nunsafe = 3\n'
    )
    assert "2 files would change" in summary(tmp_path)
    assert "1 file would change" in summary("--safe", tmp_path)
    (tmp_path / "deep").mkdir()
    write_modules(tmp_path / "deep", a=OLD)
    assert "1 file would change" in summary(tmp_path / "deep" / "a.py")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("unsave = true", "has no key 'unsave'"),
        ('unsafe = "yes"', "unsafe in [tool.mdstorm.migrate] must be true or false"),
        ("select = [1]", "must be a list of strings, found [1]"),
        ('select = ["XX1"]', "select in [tool.mdstorm.migrate]: no rule is called XX1"),
        ("unsafe = yes", "pyproject.toml cannot be read: Invalid value"),
        (
            "[tool.mdstorm]\nunsafe = true",
            "has no key 'unsafe'; its keys are ['migrate']",
        ),
        ("[tool.mdstorm]\nmigrate = true", "[tool.mdstorm.migrate] must be a table, found true"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    head = "" if text.startswith("[") else "[tool.mdstorm.migrate]\n"
    (tmp_path / "pyproject.toml").write_text(f"{head}{text}\n")
    result = invoke(command, tmp_path)
    assert result.exit_code == 2
    message = " ".join(result.stderr.replace("│", " ").split())
    assert reason in message
    assert "pyproject.toml" in message


@pytest.mark.parametrize(
    "text",
    [
        "[tool.mdstorm]\nmigrate = {unsafe = true}\n",
        '["tool"."mdstorm".\'migrate\']\n"unsafe" = true\n',
    ],
)
def test_the_configuration_may_stand_in_any_form_of_toml(tmp_path: Path, text: str) -> None:
    write_modules(tmp_path, a=OLD)
    (tmp_path / "pyproject.toml").write_text(text)
    assert "1 file would change" in summary(tmp_path)


def test_a_file_without_configuration_need_not_be_toml(tmp_path: Path) -> None:
    write_modules(tmp_path, a=BEFORE)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = {{ name }}\n")
    assert "1 file would change" in summary(tmp_path)
