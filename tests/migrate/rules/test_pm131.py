"""Classes and functions in configuration."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite, check_silence

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("_target_: petastorm.pytorch.DataLoader\n", "a.yaml"),
        ("a:\n  _target_: 'petastorm.make_reader'  # the reader\n", "a.yml"),
        ("model:\n  class_path: petastorm.TransformSpec", "a.yaml"),
        ('{"_target_": "petastorm.spark.make_spark_converter", "x": 1}\n', "a.json"),
        ('{"x": {"_target_": "petastorm.reader.Reader"}}\n', "a.json"),
    ],
)
def test_what_is_called_moves_when_edits_to_review_are_applied(text: str, path: str) -> None:
    check_noop(text, path)
    check_rewrite(text, text.replace("petastorm", "mdstorm"), path, unsafe=True)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("_target_: petastorm.reader.Ventilator\n", "petastorm.reader.Ventilator"),
        ("loader: petastorm.pytorch.DataLoader\n", "petastorm.pytorch.DataLoader"),
    ],
)
def test_what_cannot_be_decided_needs_manual_review(text: str, fragment: str) -> None:
    check_finding(text, "PM131", fragment, "a.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "engine: petastorm\n",
        "table: petastorm.events\n",
        "url: file:///petastorm.pytorch.DataLoader\n",
        "about: petastorm.pytorch.DataLoader is a class\n",
        "module: petastorm.reader\n",
        "image: petastorm:latest\n",
    ],
)
def test_other_values_are_data(text: str) -> None:
    assert "PM131" not in {found.rule for found in migrate(text, path="a.yaml").findings}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a": "petastorm:make_batch_reader", "b": "petastorm.reader:make_reader"}\n', "a.json"),
        ('["petastorm.pytorch:DataLoader", "x"]\n', "a.json"),
        ("reader: petastorm.reader:make_reader\n", "a.yaml"),
        ("- petastorm:make_reader\n- 'petastorm.pytorch:DataLoader'\n", "a.yml"),
        ('[plugins]\nread = "petastorm:make_reader"\n', "plugins.toml"),
        ("[plugins]\nread = petastorm:make_reader\n", "plugins.ini"),
    ],
)
def test_entry_points_move_after_a_review(text: str, path: str) -> None:
    check_noop(text, path)
    (found, *_) = migrate(text, path=path).findings
    assert (found.rule, found.cls) == ("PM131", "review")
    check_rewrite(text, text.replace("petastorm", "mdstorm"), path, unsafe=True)


def test_an_entry_point_that_mdstorm_lacks_stays() -> None:
    text = '{"a": "petastorm.reader:Ventilator"}\n'
    check_finding(text, "PM131", "petastorm.reader:Ventilator", "a.json")
    check_noop(text, "a.json", unsafe=True)


def test_items_of_lists_are_named() -> None:
    check_finding(
        '["petastorm.pytorch.DataLoader"]', "PM131", "petastorm.pytorch.DataLoader", "a.json"
    )
    check_silence('["petastorm.reader", "petastorm"]', "a.json")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("logging:\n  loggers:\n    a: {}\n    petastorm:\n      level: WARNING\nx: 1\n", "a.yaml"),
        ("loggers:\n  petastorm.reader: {level: INFO}\n", "logging.yml"),
        ("loggers: {petastorm: WARNING, petastorm.workers_pool: ERROR}\n", "a.yaml"),
        ('{"loggers": {"a": {"b": 1}, "petastorm": {"level": "INFO"}}}\n', "logging.json"),
        ('{\n  "loggers": {\n    "petastorm": {"level": "INFO"}\n  }\n}\n', "logging.json"),
    ],
)
def test_loggers_are_edits_to_review(text: str, path: str) -> None:
    check_noop(text, path)
    check_rewrite(text, text.replace("petastorm", "mdstorm"), path, unsafe=True)


@pytest.mark.parametrize(
    "text",
    [
        "loggers:\n  app: {}\nformats:\n  petastorm:\n    level: 1\n",
        "loggers:\n  app:\n    petastorm: 1\n",
        "loggers: {app: {petastorm: 1}, b: petastorm}\npetastorm: 1\n",
        "loggers: {petastorm: INFO, mdstorm: INFO}\n",
        "readers:\n  petastorm:\n    level: WARNING\n",
        "loggers:\n  petastorm: {level: INFO}\n  mdstorm: {level: INFO}\n",
    ],
)
def test_keys_that_are_no_loggers_are_data(text: str) -> None:
    assert "PM131" not in {found.rule for found in migrate(text, path="a.yaml").findings}
    check_noop(text, "a.yaml", unsafe=True)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            "python t.py x._target_=petastorm.make_reader y=1 +z._target_='petastorm.reader'\n",
            "run.sh",
        ),
        ("CMD python t.py --data.class_path petastorm.pytorch.DataLoader --x 1\n", "Dockerfile"),
        ("args: [x._target_=petastorm.make_reader, y]\n", "job.yaml"),
    ],
)
def test_values_in_commands_move_when_edits_to_review_are_applied(text: str, path: str) -> None:
    check_noop(text, path)
    check_rewrite(text, text.replace("petastorm", "mdstorm"), path, unsafe=True)


def test_a_command_that_names_what_mdstorm_lacks_needs_manual_review() -> None:
    text = "python t.py x._target_=petastorm.reader.Ventilator\n"
    check_finding(text, "PM131", "petastorm.reader.Ventilator", "run.sh")
    check_noop("# python t.py x._target_=petastorm.make_reader\n", "run.sh", unsafe=True)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("run.sh", "python train.py --reader petastorm.make_reader\n"),
        ("run.sh", "READER=petastorm.pytorch.DataLoader python train.py\n"),
        ("sky.yaml", "run: |\n  python train.py --reader=petastorm.make_reader\n"),
        ("Dockerfile", 'FROM a\nCMD ["train", "--reader", "petastorm.make_reader"]\n'),
    ],
)
def test_parts_of_petastorm_that_a_command_is_given_are_told(path: str, text: str) -> None:
    fragment = "petastorm.pytorch.DataLoader" if "READER" in text else "petastorm.make_reader"
    check_finding(text, "PM131", fragment, path)
    check_noop(text, path)


@pytest.mark.parametrize("value", ["petastorm.zip", "petastorm.log", "petastorm.reader"])
def test_files_and_modules_that_a_command_is_given_are_not(value: str) -> None:
    check_silence(f"python train.py --out {value}\n", "run.sh")
