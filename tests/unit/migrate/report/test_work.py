"""The work list in JSON reports, its recipes, and the skill that describes both."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.migrating import invoke, write_files

from mdstorm_migrate.api import migrate
from mdstorm_migrate.cli.migrate import migrate as command
from mdstorm_migrate.rules import all_rules

ROOT = Path(__file__).parents[4]
RECIPES = {rule.code: rule.recipe for rule in all_rules() if rule.recipe is not None}
SKILL = ROOT / "skills" / "mdstorm-migration" / "SKILL.md"


def test_work_list_has_remaining_findings_after_write(tmp_path: Path) -> None:
    recipe = RECIPES["PM114"]
    text = f"from petastorm import make_reader\n\n{recipe['before']}"
    write_files(tmp_path, {"a.py": text, "b.py": 'NAMES = ["petastorm"]\n'})
    result = invoke(command, "-w", "--format", "json", tmp_path)
    (entry,) = json.loads(result.stdout)["work"]
    assert entry.pop("why").startswith("this is closed when the function returns it")
    assert entry == {
        "file": f"{tmp_path}/a.py",
        "cell": None,
        "line": 9,  # in the new file, below its comment
        "rule": "PM114",
        "class": "manual",
        "recipe": recipe,
    }


@pytest.mark.parametrize("code", RECIPES)
def test_recipe_turns_reported_code_into_code_that_runs(code: str, tmp_path: Path) -> None:
    recipe = RECIPES[code]
    assert code in {one.rule for one in migrate(recipe["before"]).findings}
    assert migrate(recipe["after"]).findings == ()
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), tmp_path / "rows.parquet")
    names: dict[str, object] = {"url": tmp_path.as_uri()}
    exec(compile(recipe["after"], code, "exec"), names)
    assert names.get("batches") or callable(names["is_loader"])


def test_skill_mentions_needed_commands_and_only_existing_rules() -> None:
    text = SKILL.read_text("utf-8")
    assert text.startswith("---\nname: mdstorm-migration\ndescription: ")
    assert set(re.findall(r"mdstorm (\w+)", text)) >= {"audit", "migrate", "compare"}
    assert set(re.findall(r"PM\d{3}", text)) <= {"PM000", *RECIPES, "PM103", "PM119"}
