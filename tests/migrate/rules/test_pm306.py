"""What stays with Petastorm."""

from __future__ import annotations

import pytest
from tests.migrate.streaming_checks import CONF, IMPORT, MADE, check_stays, streamed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from petastorm import make_reader\n", "`petastorm.make_reader`"),
        ("import petastorm\npetastorm.make_reader(u)\n", "`petastorm.make_reader`"),
        ("import petastorm.predicates as p\n", "`petastorm.predicates`"),
        ("from petastorm.tf_utils import tf_tensors\n", "`petastorm.tf_utils.tf_tensors`"),
        (f"{IMPORT}{CONF}", "`petastorm.spark.SparkDatasetConverter`"),
        (f"{MADE}conv.make_tf_dataset()\n", "nothing for TensorFlow"),
    ],
)
def test_it_is_said_why(text: str, reason: str) -> None:
    check_stays(text, reason)


def test_dotted_strings_are_noted() -> None:
    result = streamed("import importlib\nimportlib.import_module('petastorm.spark')\n")
    assert [found.cls for found in result.findings] == ["note"]
    assert not result.changed


def test_nothing_becomes_mdstorm() -> None:
    result = streamed(
        "from petastorm import make_reader\nfrom petastorm.codecs import ScalarCodec\n"
    )
    assert "import mdstorm" not in result.output
    assert "from mdstorm" not in result.output
