"""Classes and functions in configuration."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("_target_: petastorm.pytorch.DataLoader\n", "a.yaml"),
        ("a:\n  _target_: 'petastorm.make_reader'  # the reader\n", "a.yml"),
        ('{"x": {"_target_": "petastorm.spark.make_spark_converter", "y": 1}}\n', "a.json"),
        ('{"a": "petastorm:make_batch_reader", "b": "petastorm.reader:make_reader"}\n', "a.json"),
        ("- petastorm:make_reader\n- 'petastorm.pytorch:DataLoader'\n", "a.yml"),
        ('[plugins]\nread = "petastorm:make_reader"\n', "plugins.toml"),
        ("[plugins]\nread = petastorm:make_reader\n", "plugins.ini"),
    ],
)
def test_what_is_called_moves_when_edits_to_review_are_applied(text: str, path: str) -> None:
    check_noop(text, path)
    assert {one.rule for one in migrate(text, path=path).findings if one.cls == "review"} == {
        "PM131"
    }
    check_rewrite(text, text.replace("petastorm", "mdstorm"), path, unsafe=True)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("_target_: petastorm.reader.Ventilator\n", "petastorm.reader.Ventilator"),
        ("a: petastorm.reader:Ventilator\n", "petastorm.reader:Ventilator"),
    ],
)
def test_what_mdstorm_lacks_needs_manual_review(text: str, fragment: str) -> None:
    check_finding(text, "PM131", fragment, "a.yaml")
    check_noop(text, "a.yaml", unsafe=True)


@pytest.mark.parametrize(
    "text",
    [
        "engine: petastorm\n",
        "url: file:///petastorm.pytorch.DataLoader\n",
        "about: petastorm.pytorch.DataLoader is a class\n",
        "loader: petastorm.pytorch.DataLoader\n",
        "image: petastorm:latest\n",
    ],
)
def test_other_values_are_data(text: str) -> None:
    assert "PM131" not in {found.rule for found in migrate(text, path="a.yaml").findings}
