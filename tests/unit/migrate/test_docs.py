"""The `mdstorm migrate` manual: its formats, examples and rule pages."""

import re
import runpy
from pathlib import Path

import pytest

from mdstorm_migrate import api
from mdstorm_migrate.cli.common import read_config
from mdstorm_migrate.report.formats import FORMATS
from mdstorm_migrate.rules import Rule, all_rules

ROOT = Path(__file__).parents[3]
MANUAL = (ROOT / "docs" / "migrate.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", MANUAL, re.M | re.S)


def test_joined_page_of_rules_lists_each_rule_and_its_links_have_targets() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "join_rule_pages.py"))["joined_pages"]()
    codes = [rule.code for rule in all_rules()]
    assert re.findall(r"^\| \[(PM\d+)\]", page, re.M) == codes
    assert re.findall(r"^## (PM\d+) ", page, re.M) == codes
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", page) if "://" not in target]
    assert targets
    assert not [t for t in targets if not (ROOT / "docs" / "migrate" / t).exists()]


def test_manual_describes_each_format() -> None:
    assert all(f"| `{name}` |" in MANUAL for name in FORMATS)


def test_python_example_in_manual_runs() -> None:
    (code,) = (block for block in blocks("python") if "assert" in block)
    exec(compile(code, "migrate.md", "exec"), {})


def test_configuration_example_in_manual_is_valid(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(blocks("toml")[0])
    config = read_config(tmp_path / "pyproject.toml")
    assert config.ignore == ("PM112",)
    assert config.exclude == ("legacy/**", "*_generated.py")


def test_manual_mentions_all_pre_commit_hooks() -> None:
    hooks = re.findall(r"- id: (\S+)", (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert hooks == ["mdstorm-migrate-check", "mdstorm-migrate"]
    assert all(hook in MANUAL for hook in hooks)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_examples_are_at_end_of_rule_page(rule: Rule) -> None:
    end = rule.explain().removeprefix(rule.prose)
    for example in rule.examples.values():
        end = end.replace(example.code, "", 1)
    assert not [line for line in end.splitlines() if line and not line.startswith("```")]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_examples_on_rule_page_match_rule(rule: Rule) -> None:
    examples = rule.examples
    if rule.code == "PM115":  # the example of PM115 needs two files
        return
    before = examples["before"]
    after = examples.get("after", before)
    result = api.migrate(
        before.code,
        path=before.path,
        unsafe=rule.cls == "review",
        library="streaming" if rule.code.startswith("PM2") else "petastorm",
    )
    assert not result.errors
    assert result.output == after.code
    codes = {found.rule for found in (*result.edits, *result.findings)}
    assert rule.code in codes or rule.code == "PM106"  # PM101 makes PM106's edits
