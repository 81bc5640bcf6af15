"""Conda's environments."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate

PATH = "environment.yml"


def test_what_pip_installs_is_renamed() -> None:
    check_rewrite(
        'dependencies:\n  - pip:\n    - petastorm==0.11.3  # why\n    - "petastorm[tf]>=0.9"\n',
        'dependencies:\n  - pip:\n    - mdstorm  # why\n    - "mdstorm[tf]"\n',
        PATH,
    )


@pytest.mark.parametrize("item", ["petastorm=0.11", "petastorm", "conda-forge::petastorm"])
def test_what_conda_installs_has_to_move(item: str) -> None:
    text = f"dependencies:\n  - pip:\n    - numpy\n  - {item}\n"
    check_finding(text, "PM404", "petastorm", PATH)


def test_names_that_only_contain_it_are_left_alone() -> None:
    text = "name: petastorm\ndependencies:\n  - pip:\n    - petastorm-extra\n    - my-petastorm\n"
    check_rewrite(text, text, PATH)


def test_a_comment_stands_under_the_dash_of_its_item() -> None:
    text = "dependencies:\n  - petastorm\n"
    output = migrate(text, path=PATH).output
    assert output.startswith("dependencies:\n  # TODO(mdstorm): PM404: take")
    assert output.endswith("\n  - petastorm\n")


def test_lists_in_brackets_are_read_as_others() -> None:
    check_rewrite(
        'dependencies:\n  - pip: [petastorm-tools==1.0, "petastorm [tf] >=0.12"]\n',
        'dependencies:\n  - pip: [petastorm-tools==1.0, "mdstorm[tf]"]\n',
        PATH,
    )
    check_rewrite(
        "dependencies: [python, {pip: [petastorm==0.1, x]}]\n",
        "dependencies: [python, {pip: [mdstorm, x]}]\n",
        PATH,
    )
    text = 'dependencies: [python, "conda-forge::petastorm=0.12"]  # [petastorm]\n'
    (found,) = check_noop(text, PATH).findings
    assert (found.rule, found.cls) == ("PM404", "manual")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- pip: [numpy, 'petastorm [tf] >=0.12']", "- pip: [numpy, 'mdstorm[tf]']"),
        ("- {pip: [petastorm==0.12.1, numpy]}", "- {pip: [mdstorm, numpy]}"),
        ('- pip: ["numpy==1.26.4", "petastorm"]', '- pip: ["numpy==1.26.4", "mdstorm"]'),
    ],
)
def test_lists_on_one_line_are_renamed(before: str, after: str) -> None:
    head = "dependencies:\n  - python=3.11\n  "
    check_rewrite(f"{head}{before}\n", f"{head}{after}\n", PATH)


@pytest.mark.parametrize("pin", ["python=3.8", "'python 3.9.*'", "conda-forge::numpy=1.20"])
def test_pins_in_a_list_on_one_line_hold_it_back(pin: str) -> None:
    check_noop(f"dependencies: [{pin}, pip, {{pip: [petastorm==0.12.1]}}]\n", PATH)


@pytest.mark.parametrize("item", ["conda-forge::petastorm", "'petastorm>=0.12'", "petastorm=0.12"])
def test_what_conda_installs_by_a_list_on_one_line_has_to_move(item: str) -> None:
    text = f"dependencies: [python=3.11, {item}]\n"
    (finding,) = check_noop(text, PATH).findings
    assert (finding.rule, finding.cls) == ("PM404", "manual")
    assert text[finding.start :].startswith("petastorm")


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("requirements.txt", "numpy=1.26.4=py311_0\npetastorm=0.12.1=pyhd8ed1ab_0\n", "PM401"),
        ("requirements.txt", "conda-forge::petastorm\n", "PM401"),
        ("spec.txt", "# conda create --file <this file>\nconda-forge::petastorm=0.12\n", "PM413"),
        ("model.yml", "conda:\n  dependencies:\n    - conda-forge::petastorm\n", "PM409"),
    ],
)
def test_what_conda_alone_takes_is_reported_elsewhere(path: str, text: str, rule: str) -> None:
    findings = [one for one in check_noop(text, path).findings if one.cls != "note"]
    assert [(one.rule, "conda has no package" in one.message) for one in findings] == [(rule, True)]


@pytest.mark.parametrize(
    ("below", "is_there"), [("petastorm[torch]", True), ("mdstorm", True), ("numpy", False)]
)
def test_mdstorm_is_added_below_pip_where_it_is_not_yet(below: str, is_there: bool) -> None:
    text = f"dependencies:\n  - petastorm\n  - pip:\n    - {below}\n"
    output = migrate(text, path=PATH).output
    assert ("leaves mdstorm to the list" in output) is is_there
    assert ("add mdstorm to the list" in output) is not is_there


@pytest.mark.parametrize("key", ["pip", "uv"])
def test_lists_of_rays_environments_are_pips(key: str) -> None:
    text = (
        f"# Ray\n{key}:\n  - ray[data]==2.4.0\n  # ours\n  - petastorm==0.12.1\nenv_vars:\n  A: x\n"
    )
    check_rewrite(text, text.replace("petastorm==0.12.1", "mdstorm"), "runtime_env.yaml")
    check_noop("pip:\n  - x\ndependencies:\n  - petastorm\n", "environment.yml")


def test_a_recipe_of_petastorm_itself_is_a_note() -> None:
    text = (
        '{% set name = "petastorm" %}\npackage:\n  name: {{ name|lower }}\nbuild:\n'
        "  entry_points:\n    - petastorm-throughput.py = petastorm.benchmark.cli:main\n"
        "requirements:\n  run:\n    - dill\ntest:\n  imports:\n    - petastorm\n"
    )
    found = check_noop(text, "meta.yaml").findings
    assert [one.cls for one in found if one.rule == "PM404"] == ["note"]


def test_the_name_of_an_entry_point_is_no_command() -> None:
    text = (
        "package:\n  name: x\nrequirements:\n  run: [dill]\nbuild:\n  entry_points:\n"
        "    - petastorm-throughput.py = petastorm.benchmark.cli:main\n"
    )
    check_noop(text, "meta.yaml", unsafe=True)
