"""The manual: every rule has a page, whose blocks are what the rule does."""

import re

import pytest

from mdstorm_migrate.api import migrate
from mdstorm_migrate.rules import Rule, all_rules

_BLOCK = re.compile(
    r"^(`{3,})\w+ (?P<which>before|after)(?: (?P<path>\S+))?\n(?P<text>.*?)^\1$", re.M | re.S
)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_the_page_of_a_rule_shows_what_it_does(rule: Rule) -> None:
    page = rule.explain()
    assert page.startswith(f"# {rule.code} {rule.title}\n\nClass: `{rule.cls}`.\n\n")
    blocks = {match["which"]: match for match in _BLOCK.finditer(page)}
    if rule.code == "PM115":  # it takes two files to show
        return
    before = blocks["before"]
    after = blocks.get("after", before)
    result = migrate(before["text"], path=before["path"], unsafe=rule.cls == "review")
    assert not result.errors
    assert result.output == after["text"]
    codes = {found.rule for found in (*result.edits, *result.findings)}
    assert rule.code in codes or rule.code == "PM106"  # PM101 makes its edits


def test_codes_are_the_names_of_modules_and_unique() -> None:
    codes = [rule.code for rule in all_rules()]
    assert len(set(codes)) == len(codes)
    for rule in all_rules():
        assert rule.check.__module__.rpartition(".")[2].startswith(rule.code.lower())
