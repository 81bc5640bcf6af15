"""What becomes of the edits that rules make of a file."""

from collections.abc import Iterator

import pytest

from mdstorm_migrate.api import migrate
from mdstorm_migrate.base.edits import Class, Edit
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules import Rule
from mdstorm_migrate.run import migration

TEXT = "petastorm = 1\nother = 2\n"


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ({}, TEXT),
        ({"unsafe": True}, "a = 1\nb = 2\n"),
        ({"unsafe": True, "ignore": ["PM902"]}, TEXT),
        ({"unsafe": True, "select": ["PM901"]}, TEXT),
    ],
)
def test_edits_of_a_group_are_applied_all_or_none(
    options: dict[str, object], output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(code: str, cls: Class, old: str, new: str) -> Rule:
        def check(module: PythonModule) -> Iterator[Edit]:
            if (start := module.text.find(old)) >= 0:
                yield Edit(code, cls, start, start + len(old), new, "renamed", "together")

        return Rule(code, "", cls, ("python",), check)

    rules = [rule("PM901", "exact", "petastorm", "a"), rule("PM902", "review", "other", "b")]
    monkeypatch.setattr(migration, "all_rules", lambda: rules)
    assert migrate(TEXT, **options).output == output  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        "make_reader(u,  # mdstorm: ignore[PM113]\n    shuffel=1)\n",
        "make_reader(u,\n    shuffel=1,\n)  # mdstorm: ignore\n",
    ],
)
def test_a_comment_on_any_line_of_a_statement_keeps_rules_away(call: str) -> None:
    result = migrate(f"from petastorm import make_reader\n{call}")
    assert result.output == f"from mdstorm import make_reader\n{call}"
    assert result.findings == ()
