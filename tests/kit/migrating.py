"""Check that a rule rewrites source, leaves it unchanged, or reports it."""

import inspect
import json
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import click
import click.testing
import pytest
from click.testing import CliRunner

from mdstorm_migrate.api import Result, migrate
from mdstorm_migrate.run.discover import Skipped
from mdstorm_migrate.run.outcome import FileOutcome, Settings
from mdstorm_migrate.run.together import examine
from mdstorm_migrate.run.writing import write_all

Test = TypeVar("Test", bound=Callable[..., None])


def each(*rows: object) -> Callable[[Test], Test]:
    """Parametrize a test's first argument with `rows`, or its first arguments with tuples."""
    width = len(rows[0]) if isinstance(rows[0], tuple) else 1

    def parametrized(test: Test) -> Test:
        names = ",".join([*inspect.signature(test).parameters][:width])
        return pytest.mark.parametrize(names, rows)(test)

    return parametrized


def check_rewrite(before: str, after: str, path: str | None = None, **options: object) -> Result:
    """Assert that `before` becomes `after`, and that a second migration changes nothing."""
    result = migrate(before, path=path, **options)  # type: ignore[arg-type]
    assert result.errors == ()
    assert result.output == after
    again = migrate(after, path=path, **options)  # type: ignore[arg-type]
    assert again.output == after
    return result


def check_noop(text: str, path: str | None = None, **options: object) -> Result:
    """Assert that the source is unchanged except for TODO comments."""
    return check_rewrite(text, text, path, todo=False, **options)


def check_finding(text: str, code: str, fragment: str, path: str | None = None) -> None:
    """Assert that a rule has a finding at `fragment` in the source."""
    result = migrate(text, path=path, todo=False)
    spans = [text[found.start : found.stop] for found in result.findings if found.rule == code]
    assert fragment in spans


def check_moves(text: str, path: str | None = None) -> Result:
    """Assert that each "petastorm" in the source becomes "mdstorm"."""
    return check_rewrite(text, text.replace("petastorm", "mdstorm"), path)


def check_held(text: str, code: str, fragment: str, path: str | None = None) -> None:
    """Assert that the source is unchanged, and that a rule has a finding at `fragment`."""
    check_noop(text, path)
    check_finding(text, code, fragment, path)


def check_silence(text: str, path: str | None = None) -> None:
    """Assert that the source is unchanged, and that no rule except PM001 has a finding."""
    result = check_noop(text, path)
    assert [found for found in result.findings if found.rule != "PM001"] == []


def write_files(root: Path, files: dict[str, str]) -> None:
    """Write each file's text to its path relative to `root`."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def write_modules(root: Path, **texts: str) -> None:
    """Write a Python file for each module, given its name and source."""
    write_files(root, {f"{name}.py": text for name, text in texts.items()})


def run(
    found: Iterable[Path | Skipped], settings: Settings, *, write: bool = False
) -> list[FileOutcome]:
    """Return the outcomes of files with results, in the order of the run."""
    paths = [one for one in found if isinstance(one, Path)]
    outcomes = [one for one in examine(paths, settings).outcomes if one.has_results]
    return list(write_all(outcomes)) if write else outcomes


def invoke(command: click.Command, *arguments: object, **options: Any) -> click.testing.Result:
    """Run a command, with separate stdout and stderr."""
    # Click 8.1 mixes stdout and stderr by default.
    separate = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**{"mix_stderr": False} if separate else {})  # type: ignore[arg-type]
    return runner.invoke(command, [str(one) for one in arguments], **options)


def schema_of(report: str) -> dict[str, Any]:
    """Return the JSON schema of a ``report`` of the migration, or of an ``audit``."""
    file = resources.files("mdstorm_migrate.report") / "assets" / f"{report}.schema.json"
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found
