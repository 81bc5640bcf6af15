"""Pickles of Petastorm's objects."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop

from mdstorm_migrate.api import migrate

READER = "from petastorm import make_reader\n"


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("s = pickle.loads(meta[UNISCHEMA_KEY])", "pickle.loads(meta[UNISCHEMA_KEY])"),
        ("schema = pickle.load(f)", "pickle.load(f)"),
        ("def f():\n    return joblib.load('converter.pkl')", "joblib.load('converter.pkl')"),
    ],
)
def test_its_file_waits(text: str, fragment: str) -> None:
    check_noop(READER + text)
    check_finding(READER + text, "PM121", fragment)


def test_other_pickles_are_noted() -> None:
    result = migrate(READER + "model = pickle.load(f)\n")
    assert result.changed
    assert [one.cls for one in result.findings] == ["note"]
    assert not migrate("# petastorm\nschema = pickle.load(f)\n").findings
