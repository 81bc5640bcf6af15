"""Sentences that speak of commands are told and left alone; commands are not taken for them."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_noop, check_rewrite

from mdstorm_migrate.api import migrate

SPOKEN = [
    "pip install petastorm==0.11.2 did not help",
    "I ran `pip install petastorm==0.11.2` and it hangs.",
    "Steps:\\n`pip install petastorm`",
    "we tried pip install petastorm==0.9 on the cluster",
    "Please pip install petastorm==0.9",
    "hangs in python -m petastorm.etl.petastorm_generate_metadata since we use DBR 9",
]
RUN = [
    "pip install {}",
    "cd /app && sudo -H pip install {} torch",
    "echo it is not there yet; pip install {}",
    "pip install -q {} && echo we are done, or not",
    "docker run my/image:a pip install {}",
]


@pytest.mark.parametrize("said", SPOKEN)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("issues.json", '[{{"number": 1, "body": "{}"}}, {{"body": "x"}}]\n'),
        ("issues.yaml", '- id: 3\n  body: "{}"\n'),
        ("notes.yml", "notes:\n- {}\n"),
        ("pipeline.groovy", 'throw new Exception("{}")\n'),
    ],
)
def test_sentences_are_told_and_left(path: str, text: str, said: str) -> None:
    result = check_noop(text.format(said), path)
    found = [one for one in result.findings if one.rule != "PM001"]
    assert [one.cls for one in found] == ["note"]
    assert "speaks of a command" in found[0].message


@pytest.mark.parametrize("command", RUN)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("conf.json", '{{"body": "{}", "title": "we tried it and it is not"}}\n'),
        ("conf.yaml", "- x: {}  # we need it, and they do not\n"),
        ("list.yml", "x:\n- '{}'\n"),
        ("job.groovy", 'sh "{}" // we need it, and they do not\n'),
    ],
)
def test_commands_move_whatever_stands_beside_them(path: str, text: str, command: str) -> None:
    before, after = (text.format(command.format(name)) for name in ("petastorm==0.9", "mdstorm"))
    check_rewrite(before, after, path)


@pytest.mark.parametrize("key", ["run", "script", "cmd", "postCreateCommand", "entrypoint", "init"])
def test_what_a_key_says_is_run_is_a_command(key: str) -> None:
    text = f'{key}: "we tried pip install petastorm and it is not"\n'
    check_rewrite(text, text.replace("petastorm", "mdstorm"), "a.yaml")


def test_requirements_in_sentences_need_no_review() -> None:
    result = migrate("body: we use petastorm==0.9 and it hangs\n", path="a.yaml", todo=False)
    assert {one.rule for one in result.findings} == {"PM001"}
