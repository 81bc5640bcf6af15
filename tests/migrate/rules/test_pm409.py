"""Definitions of clusters and jobs."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite, check_silence

from mdstorm_migrate.api import migrate

KEY = "petastorm.spark.converter.parentCacheDirUrl"
NEW_KEY = "mdstorm.spark.converter.parentCacheDirUrl"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'{{"spark_conf": {{"{KEY}": "x"}}}}', f'{{"spark_conf": {{"{NEW_KEY}": "x"}}}}'),
        ('{"pypi": {"package": "petastorm==0.12.1"}}', '{"pypi": {"package": "mdstorm"}}'),
        (
            '{"package":"petastorm[torch]>=0.9,<1", "engine": "petastorm"}',
            '{"package":"mdstorm[torch]", "engine": "petastorm"}',
        ),
        ('{"dependencies": ["petastorm", "numpy"]}', '{"dependencies": ["mdstorm", "numpy"]}'),
    ],
)
def test_json_is_rewritten(before: str, after: str) -> None:
    check_rewrite(before, after, "job.json", unsafe=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"spark_conf:\n  {KEY}: file:///x\n", f"spark_conf:\n  {NEW_KEY}: file:///x\n"),
        ("- pypi: {package: petastorm==1.0}\n", "- pypi: {package: mdstorm}\n"),
        ('- pypi:\n    package: "petastorm"  # c\n', '- pypi:\n    package: "mdstorm"  # c\n'),
        ("requirements:\n  - petastorm==0.1\n  - a\n", "requirements:\n  - mdstorm\n  - a\n"),
        ("run: |\n  pip install petastorm\n", "run: |\n  pip install mdstorm\n"),
    ],
)
def test_yaml_is_rewritten(before: str, after: str) -> None:
    check_rewrite(before, after, "databricks.yml", unsafe=True)


@pytest.mark.parametrize(
    "text",
    ["name: petastorm\n", "format: petastorm\n", "paths:\n  - petastorm\n", f"key: {KEY}\n"],
)
def test_values_that_are_only_called_so_stay(text: str) -> None:
    check_noop(text, "conf.yaml")


def test_the_key_is_one_to_review_and_libraries_are_not() -> None:
    before = f'{{"spark_conf": {{"{KEY}": "x"}}, "pypi": {{"package": "petastorm"}}}}'
    check_rewrite(before, before.replace('"petastorm"', '"mdstorm"'), "job.json")


def test_lists_without_quotes_are_read() -> None:
    check_rewrite(
        "hooks:\n- additional_dependencies: [petastorm==0.12.1, numpy]\n",
        "hooks:\n- additional_dependencies: [mdstorm, numpy]\n",
        ".pre-commit-config.yaml",
    )


@pytest.mark.parametrize("text", ["package: petastorm\n", '[{"package": "petastorm"}]\n'])
def test_packages_that_are_no_libraries_stay(text: str) -> None:
    check_noop(text, "mkdocs.yml")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'script: ["pip install petastorm[test]", "pytest -m petastorm"]\n',
            'script: ["pip install mdstorm", "pytest -m petastorm"]\n',
        ),
        (
            'script: ["pip install a", "pytest -m petastorm", "pip install petastorm==0.12.1"]\n',
            'script: ["pip install a", "pytest -m petastorm", "pip install mdstorm"]\n',
        ),
        (
            'command: ["pip", "install", "numpy", "petastorm"]\n',
            'command: ["pip", "install", "numpy", "mdstorm"]\n',
        ),
    ],
)
def test_strings_of_a_list_are_commands_or_words_of_one(before: str, after: str) -> None:
    check_rewrite(before, after, ".gitlab-ci.yml")


@pytest.mark.parametrize(
    "command",
    ["pytest -m petastorm", "python -m pytest -m petastorm", "git commit -m petastorm"],
)
def test_a_marker_is_no_module(command: str) -> None:
    text = f"script:\n  - {command}\n"
    check_noop(text, ".gitlab-ci.yml", unsafe=True)
    check_silence(text, ".gitlab-ci.yml")


@pytest.mark.parametrize(
    "command", ["python -m {}", "python3.8 -W ignore \\\n      -m {}", "$(PYTHON) -m {}"]
)
def test_a_module_that_python_runs_is_reported(command: str) -> None:
    text = f"run: |\n  {command.format('petastorm')}\n"
    check_finding(text, "PM409", "-m petastorm", "databricks.yml")


@pytest.mark.parametrize(
    ("definition", "reference"),
    [
        ('parameters:\n  v: {type: string, default: "0.12.1"}\n', "<< pipeline.parameters.v >>"),
        ('variables:\n  v:\n    default: "0.12.1"\n', "${var.v}"),
    ],
)
def test_a_parameter_that_chose_the_version_is_named(definition: str, reference: str) -> None:
    text = f"{definition}libraries:\n  - pypi:\n      package: "
    before = f"{text}petastorm=={reference}\n"
    check_rewrite(before, f"{text}mdstorm\n", "databricks.yml")
    check_finding(before, "PM409", "v", "databricks.yml")


@pytest.mark.parametrize(
    "text",
    [
        "args:\n  - python\n  - -m\n  - {}.benchmark.cli\n  - file:///a\n",
        "command: [python, -m, {}.benchmark.cli]\n",
        'command:\n  ["python",\n   "-m",\n   "{}.benchmark.cli"]\n',
    ],
)
def test_a_program_may_be_a_list_of_words(text: str) -> None:
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), "job.yaml")


def test_a_script_in_a_list_of_words_needs_manual_review() -> None:
    text = "command:\n  - petastorm-throughput.py\n  - file:///a\n"
    check_noop(text, "job.yaml", unsafe=True)
    check_finding(text, "PM409", "petastorm-throughput.py", "job.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "name: API must not import petastorm\n",
        "steps:\n  - name: 'import petastorm, then train'\n",
        "- {name: import petastorm, run: pytest}\n",
    ],
)
def test_names_of_steps_run_nothing(text: str) -> None:
    check_silence(text, "ci.yml")


def test_what_stands_beside_a_name_runs() -> None:
    text = "- {name: smoke, run: \"python -c 'import petastorm'\"}\n"
    check_finding(text, "PM409", "import petastorm", "ci.yml")


@pytest.mark.parametrize("pattern", ["'^(import|from) petastorm'", "import petastorm"])
def test_hooks_that_search_files_need_manual_review(pattern: str) -> None:
    text = (
        "repos:\n  - repo: local\n    hooks:\n      - id: a\n"
        f"        entry: {pattern}\n        language: pygrep\n      - id: b\n"
    )
    path = ".pre-commit-config.yaml"
    check_noop(text, path)
    (found,) = migrate(text, path=path, todo=False).findings
    assert (found.rule, found.cls) == ("PM409", "manual")


@pytest.mark.parametrize(
    "text",
    [
        "env:\n  EXTRA_PIP_PACKAGES: petastorm s3fs\n",
        "env:\n  - name: PIP_PACKAGES\n    value: s3fs petastorm\n",
        "x:\n  _PIP_ADDITIONAL_REQUIREMENTS: ${R:-}\ny:\n  PIP_REQUIREMENTS: 's3fs petastorm'\n",
    ],
)
def test_variables_that_list_packages_require_them(text: str) -> None:
    (found,) = (one for one in migrate(text, path="a.yml").findings if one.rule != "PM001")
    assert (found.rule, found.cls) == ("PM409", "manual")
    check_silence("env:\n  TAGS: petastorm s3fs\n", "a.yml")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("job.json", '{"libraries": [{"pypi": {"package": "petastorm-contrib==0.1"}}]}'),
        ("job.yml", "dependencies:\n  - Petastorm-contrib==0.1\n"),
        ("requirements.txt", "Petastorm-contrib==0.1\n"),
    ],
)
def test_a_distribution_that_is_made_for_petastorm_is_a_note(path: str, text: str) -> None:
    found = check_noop(text, path).findings
    assert ["etastorm-contrib` may need" in one.message for one in found] == [True]
