"""PM203: MosaicML Streaming module paths in strings, configurations and notebooks."""

import json
from functools import partial

import pytest
from tests.kit.migrating import check_noop, check_rewrite, each

from mdstorm_migrate.api import migrate

rewrite = partial(check_rewrite, library="streaming")
noop = partial(check_noop, library="streaming")

YAML = """\
train_loader:
  dataset:
    _target_: {}  # endless
    local: /tmp/streaming
    remote: s3://bucket/streaming
"""
JSON = '{{"dataset": {{"_target_" : "{}", "local": "streaming"}}}}\n'


@each(
    ("streaming.StreamingDataset", "mdstorm_backend.StreamingDataset"),
    ("streaming.base.StreamingDataset", "mdstorm_backend.streaming.base.StreamingDataset"),
    ("streaming.text.StreamingC4", "mdstorm_backend.streaming.text.StreamingC4"),
)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("conf/data.yaml", YAML),
        ("conf/quoted.yml", YAML.replace("{}", '"{}"')),
        ("conf/data.json", JSON),
        ("environment.yaml", YAML),
        ("train.py", 'loader = instantiate({{"_target_": "{}", "local": "streaming"}})\n'),
        ("conf.py", 'loader = DictConfig(dict(_target_="{}"))\n'),
    ],
)
def test_hydra_targets_are_renamed(before: str, after: str, path: str, text: str) -> None:
    rewrite(text.format(before), text.format(after), path)


@each(
    ("a.yaml", "loader:\n  _target_: streaming.base.batching.Batcher\n"),
    ("a.json", '{"_target_": "streaming.HFUploader"}\n'),
    ("a.py", 'instantiate({"_target_": "streaming.base.shared.SharedArray"})\n'),
    ("a.py", 'import importlib\nimportlib.import_module("streaming.multimodal")\n'),
    ("a.py", 'import importlib\nimportlib.import_module("streaming.base.registry_utils")\n'),
    ("a.py", 'def test(monkeypatch):\n    monkeypatch.setattr("streaming.base.shared.x", 1)\n'),
)
def test_unsupported_name_needs_manual_review_with_link_to_section(path: str, text: str) -> None:
    (found,) = noop(text, path).findings
    assert (found.rule, found.cls) == ("PM203", "manual")
    assert "docs/mosaicml.md#" in found.text


@each(
    ("a.yaml", "# _target_: streaming.StreamingDataset\nname: streaming.StreamingDataset\n"),
    ("a.yaml", "_target_: ours.streaming.StreamingDataset\n"),
    ("a.yaml", "_target_: streaming.client.Client\n"),
    ("a.json", '{"name": "streaming.StreamingDataset", "not_target_": "streaming.Stream"}\n'),
    ("a.py", 'instantiate({"name": "streaming.StreamingDataset"})\n'),
)
def test_strings_that_are_not_targets_in_streaming_are_unchanged(path: str, text: str) -> None:
    assert noop(text, path).findings == ()


def notebook(*cells: str) -> str:
    return json.dumps(
        {
            "cells": [
                {"cell_type": "code", "metadata": {}, "outputs": [], "source": cell}
                for cell in cells
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


def test_all_notebook_cells_are_rewritten() -> None:
    target = 'loader = instantiate({"_target_": "%s.StreamingDataset"})\n'
    rewrite(
        notebook(
            "%pip install mosaicml-streaming\n",
            "from streaming import StreamingDataset\n",
            target % "streaming",
        ),
        notebook(
            '%pip install "mdstorm[torch]"\n',
            "from mdstorm_backend import StreamingDataset\n",
            target % "mdstorm_backend",
        ),
        "train.ipynb",
    )


def test_string_that_imports_a_module_is_renamed_and_a_patch_needs_review() -> None:
    text = 'import_module("{}.text")\npatch("streaming.Stream")\n'
    result = rewrite(text.format("streaming"), text.format("mdstorm_backend.streaming"))
    assert [(one.rule, one.cls, one.line) for one in result.findings] == [("PM203", "review", 2)]


@each(
    "%%timeit -n 1\nfrom streaming import Stream as (",
    "import streaming.base.util as u, (",
    "!! pip install mosaicml-streaming==0.8.1\nThat was it.",
    "x = streaming.Stream(",
)
def test_unparsed_cell_with_streaming_is_reported_only_with_streaming_option(broken: str) -> None:
    text = notebook("from streaming import Stream\n", broken, "Das ist Prosa.")
    result = migrate(text, path="a.ipynb", library="streaming")
    (problem,) = result.errors
    assert str(problem).startswith("cell 2, line ")
    assert "this cell was left as it is: not Python" in str(problem)
    assert "from mdstorm_backend import Stream" in result.output
    assert migrate(text, path="a.ipynb").errors == ()


def test_unparsed_cell_with_petastorm_is_not_reported_with_streaming_option() -> None:
    text = notebook("from streaming import Stream\n", "import petastorm, (")
    assert migrate(text, path="a.ipynb", library="streaming").errors == ()
