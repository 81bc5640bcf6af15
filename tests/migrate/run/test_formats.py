"""Files of settings that could no longer be read stay as they are, and are named."""

from pathlib import Path, PurePath

import pytest

from mdstorm_migrate.base.edits import EditError
from mdstorm_migrate.packaging import rewriting
from mdstorm_migrate.run.migration import check_format
from mdstorm_migrate.run.outcome import Settings
from mdstorm_migrate.run.together import run


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("pyproject.toml", 'a = "b"\n', 'a = "b", "c"\n'),
        ("Pipfile", 'a = "b"\n', 'a = "b", "c"\n'),
        ("job.JSON", '{"a": "b"}', '{"a": "b", }'),
        ("tox.ini", "[a]\nb = c\n", "b = c\n"),
    ],
)
def test_what_parsed_must_go_on_parsing(name: str, good: str, bad: str) -> None:
    path = PurePath(name)
    check_format(path, good, good)
    check_format(path, bad, bad)
    check_format(PurePath("notes.txt"), good, bad)
    with pytest.raises(EditError, match="would not parse"):
        check_format(path, good, bad)


def test_an_outcome_that_would_not_parse_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "requirement_of", lambda *_: 'mdstorm" "x')
    path = tmp_path / "pyproject.toml"
    before = '[project]\nname = "x"\ndependencies = ["petastorm"]\n'
    path.write_text(before)
    (found,) = run([path], Settings(), write=True)
    (problem,) = found.outcome.problems
    assert problem.reason.startswith("cannot be changed: the result would not parse: ")
    assert path.read_text() == before
