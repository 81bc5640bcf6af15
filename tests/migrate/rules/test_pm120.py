"""Mocks of names that mdstorm does not look up."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

READER = "from petastorm import reader\n"


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("mock.patch.object(reader, 'Reader')", "'Reader'"),
        ("monkeypatch.setattr(reader, 'Reader', None)", "'Reader'"),
    ],
)
def test_it_is_named(text: str, fragment: str) -> None:
    check_finding(READER + text, "PM120", fragment)


def test_private_parts_keep_the_file() -> None:
    text = (
        "from petastorm.spark import SparkDatasetConverter\n"
        "mocker.patch.object(SparkDatasetConverter, '_check_and_set_overriden_petastorm_args')\n"
    )
    check_noop(text)


@pytest.mark.parametrize(
    "text",
    [
        "mock.patch.object(reader, 'make_reader')\n",
        "mock.patch.object(reader.Reader, 'stop')\n",
        "import petastorm as p\nmocker.patch.object(p, 'TransformSpec')\n",
        "mocker.patch.object(other, 'Reader')\n",
    ],
)
def test_what_programs_call_themselves_is_replaced_as_before(text: str) -> None:
    check_rewrite(READER + text, (READER + text).replace("petastorm", "mdstorm"))
