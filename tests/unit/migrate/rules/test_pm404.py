"""PM404: conda environments and recipes."""

from pathlib import Path

import pytest
from tests.kit.migrating import check_held, check_noop, check_rewrite, each, run, write_files

from mdstorm_migrate.run.discover import discover
from mdstorm_migrate.run.outcome import Settings

ENVIRONMENT = """\
name: train
dependencies:
  - python=3.8
  - pip
  - pip:
    - {}
    - numpy==1.19
"""


@pytest.mark.parametrize("path", ["environment.yml", "conda.yaml", "train-env.yml"])
@pytest.mark.parametrize("item", ["{}", '"{}"'])
def test_pip_section_of_conda_environment_is_renamed(path: str, item: str) -> None:
    before, after = item.format("petastorm[torch]>=0.9"), item.format("mdstorm[torch]")
    check_rewrite(ENVIRONMENT.format(before), ENVIRONMENT.format(after), path)


def test_comment_on_a_pinned_version_is_removed_in_yaml_and_toml() -> None:
    before, after = '"petastorm==0.9"  # 0.12.0 is slow', '"mdstorm"'
    check_rewrite(ENVIRONMENT.format(before), ENVIRONMENT.format(after), "environment.yml")
    text = "[project]\ndependencies = [\n  {} # pinned\n]\n"
    expected = '[project]\ndependencies = [\n  "mdstorm",\n]\n'
    check_rewrite(text.format('"petastorm==0.9",'), expected, "pyproject.toml")


@pytest.mark.parametrize(
    "item", ["petastorm=0.12", "conda-forge::petastorm", "petastorm  # x", '"petastorm>=0.9"']
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- {}\n- numpy\n", "- pip\n- pip:\n  - mdstorm{}\n- numpy\n"),
        ("- pip=23\n- {}\n", "- pip=23\n- pip:\n  - mdstorm{}\n"),
        ("- pip:\n  - numpy\n- {}\n- x\n", "- pip:\n  - mdstorm\n  - numpy\n- x\n"),
        ("- {}\n- pip:\n  - mdstorm\n", "- pip:\n  - mdstorm\n"),
        (
            "\n# x\n  - a\n\n  - {}\nx: y",
            "\n# x\n  - a\n\n  - pip\n  - pip:\n    - mdstorm{}\nx: y",
        ),
        ("- {}\n- pip:\n  - petastorm[torch]\n", "- pip:\n  - mdstorm[torch]\n"),
    ],
)
def test_conda_dependency_moves_to_pip_section(item: str, before: str, after: str) -> None:
    comment = "  # x" if "#" in item else ""
    check_rewrite(
        f"dependencies:\n{before.format(item)}",
        f"dependencies:\n{after.format(comment)}",
        "environment.yml",
    )


def test_conda_recipe_needs_manual_review() -> None:
    text = "package:\n  name: x\nrequirements:\n  run:\n    - petastorm >=0.9\n"
    check_held(text, "PM404", "petastorm >=0.9", "meta.yaml")


@each(
    "name: petastorm\n",
    "# - petastorm\n",
    "prefix: /envs/petastorm\n",
    "dependencies:\n  - x\n\n- y\nformats:\n  - petastorm\n",
    "formats:\n- petastorm\n",
    "formats:\n- petastorm\ndependencies:\n- x\n",
)
def test_mentions_of_petastorm_are_unchanged(text: str) -> None:
    check_noop(text, "environment.yml")


@each(("", "note"), ("from petastorm import make_reader\n", "manual"))
def test_conda_package_that_stays_is_reported_if_other_code_moves(
    moves: str, cls: str, tmp_path: Path
) -> None:
    stays = "from petastorm.reader import ArrowReaderWorker\n"
    conda = "dependencies:\n  - petastorm=0.12\n"
    write_files(tmp_path, {"a.py": stays, "b.py": moves, "environment.yml": conda})
    found = {one.path.name: one.outcome for one in run(discover([tmp_path]), Settings())}
    assert [one.cls for one in found["environment.yml"].findings if one.rule == "PM404"] == [cls]
