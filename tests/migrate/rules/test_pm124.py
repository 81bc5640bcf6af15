"""Names of modules that are compared."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_silence

from mdstorm_migrate.api import migrate

PLAIN = 'x = "petastorm"\n'


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('assert type(x).__module__ != "petastorm.reader"', '"petastorm.reader"'),
        ('type(x).__module__.startswith("petastorm.")', '"petastorm."'),
        ('type(x).__module__.split(".")[0] == "petastorm"', '"petastorm"'),
        ('"petastorm" in str(type(x))', '"petastorm"'),
        ('OURS = ("petastorm.",)\ntype(x).__module__.startswith(OURS)', '"petastorm."'),
        ('module.__name__ in ("petastorm", "torch")', '"petastorm"'),
        ('[m for m in sys.modules if m.split(".")[0] == "petastorm"]', '"petastorm"'),
        (
            '[m for m in __import__("sys").modules if m.split(".")[0] == "petastorm"]',
            '"petastorm"',
        ),
        ('for n in root.loggerDict:\n    if n.startswith("petastorm."): ...', '"petastorm."'),
        ('filter(lambda record: record.name.startswith("petastorm"), records)', '"petastorm"'),
        ('assert caplog.record_tuples == [("petastorm.reader", 30, "x")]', '"petastorm.reader"'),
        ('assert ("petastorm", 30, "x") in caplog.record_tuples', '"petastorm"'),
        ('any(r.name == "petastorm" for r in caplog.records)', '"petastorm"'),
        ('for m in list(sys.modules):\n    m.startswith("petastorm.") and f(m)', '"petastorm."'),
        ('self.assertEqual(type(x).__module__, "petastorm.reader")', '"petastorm.reader"'),
    ],
)
def test_they_are_named_once(text: str, fragment: str) -> None:
    check_noop(text)
    check_finding(text, "PM124", fragment)
    assert len(migrate(text).findings) == 1


@pytest.mark.parametrize(
    "text",
    [
        'engine.name == "petastorm"',
        '[m for m in engines if m.split(".")[0] == "petastorm"]',
        '__name__ == x or engine == "petastorm"',
        'type(x).__module__ in ("petastorm.reader", "mdstorm.reader")',
        'm = type(x).__module__\nx.__module__ == "petastorm" or x.__module__ == "mdstorm"',
        'any(m == "petastorm" for m in engines)',
        PLAIN,
    ],
)
def test_what_is_called_petastorm_is_data(text: str) -> None:
    check_silence(text)
