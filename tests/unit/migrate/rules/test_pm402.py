"""PM402: ``pyproject.toml`` and ``Pipfile``."""

from pathlib import Path

from tests.kit.migrating import check_held, check_noop, check_rewrite, each, run, write_files

from mdstorm_migrate.run.discover import discover
from mdstorm_migrate.run.outcome import Settings

PATH = "pyproject.toml"


def test_command_in_toml_string_installs_mdstorm() -> None:
    text = '[tool.pdm.scripts]\nsetup = "pip install {}"\n'
    check_rewrite(text.format("petastorm[torch]==0.12"), text.format("mdstorm[torch]"), PATH)


def test_path_in_task_of_pdm_is_no_requirement() -> None:
    check_noop('[tool.pdm.scripts]\ntrain = "python a.py file:///data/petastorm"\n', PATH)


def test_constraint_is_renamed_without_extras() -> None:
    text = '[tool.uv]\nconstraint-dependencies = ["{0}"]\n'
    check_rewrite(text.format("petastorm[tf]<1"), text.format("mdstorm"), PATH)


@each(
    ('[tool.uv]\noverride-dependencies = ["petastorm==0.12; x"]\n', "[]"),
    ('[tool.uv]\noverride-dependencies = ["a", "petastorm==0.12"]\n', '["a"]'),
    ('[tool.uv]\noverride-dependencies = ["petastorm[tf]", "a"]\n', '["a"]'),
    ('[tool.uv]\noverride-dependencies = [\n  "petastorm",  # pin\n  "a",\n]\n', '[\n  "a",\n]'),
)
def test_override_is_removed_because_it_would_remove_extras(text: str, left: str) -> None:
    check_rewrite(text, f"[tool.uv]\noverride-dependencies = {left}\n", PATH)


def test_override_of_pdm_is_removed() -> None:
    text = '[tool.pdm.resolution.overrides]\n{}numpy = "1"\n'
    check_rewrite(text.format('petastorm = "0.12"\n'), text.format(""), PATH)


@each(
    '[project]\nmatrix = [\n  ["a", "b"],\n]\ndependencies = ["{}"]\n',
    '[dependency-groups]\ndocs = [\n  {{include-group = "x"}}, [\n"y" ]\n]\ntest = ["{}"]\n',
    "[tool.pdm.dev-dependencies]\nx = [\n['a = 1', 'b'],\n'{}']\n",
)
def test_lines_in_toml_arrays_are_not_parsed_as_tables_or_keys(text: str) -> None:
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), PATH)


@each(
    ("'^0.11'", "'*'"),
    ("{version = '>=0.9', optional = true}", "{version = '*', optional = true}"),
    ("{ version = '0.11.5', extras = ['opencv'] }", "{ version = '*', extras = ['images'] }"),
)
def test_poetry_and_pixi_dependencies_are_renamed(before: str, after: str) -> None:
    tables = ("dependencies", "dev-dependencies", "group.train.dependencies")
    for table in (*(f"poetry.{one}" for one in tables), "pixi.feature.x.pypi-dependencies"):
        text = f"[tool.{table}]\nnumpy = '1.19'\n{{}} = {{}}\n"
        before, after = before.replace("'", '"'), after.replace("'", '"')
        check_rewrite(text.format("petastorm", before), text.format("mdstorm", after), PATH)


def test_poetry_dependency_that_stays_gets_mdstorm_once(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            PATH: '[tool.poetry.dependencies]\npetastorm = "0.12"\n',
            "moved.py": "from petastorm import make_reader\n",
            "stays.py": "from petastorm.hdfs.namenode import HdfsConnector\n",
        },
    )
    for _ in range(2):
        outcomes = run(discover([tmp_path]), Settings(), write=True)
        assert [one.outcome.problems for one in outcomes if one.outcome.problems] == []
        text = (tmp_path / PATH).read_text()
        assert text == '[tool.poetry.dependencies]\nmdstorm = "*"\npetastorm = "0.12"\n'


def test_poetry_dependency_table_and_extra_are_renamed() -> None:
    text = (
        "[tool.poetry.dependencies.{0}]\nversion = {1}\noptional = true\n\n"
        '[tool.poetry.extras]\ntrain = ["{0}", "torch"]\n'
    )
    check_rewrite(text.format("petastorm", '"^0.11"'), text.format("mdstorm", '"*"'), PATH)


@each(
    'petastorm = { git = "https://host/petastorm.git" }',
    'petastorm = "0.9+acme"',
    'petastorm = { version = "^0.11", python = "<3.10" }',
    "petastorm = {version = '0.1', markers = \"python_version < '3.10'\"}",
)
def test_poetry_dependency_on_fork_or_for_old_python_needs_manual_review(line: str) -> None:
    check_held(f"[tool.poetry.dependencies]\n{line}\n", "PM402", "petastorm", PATH)


def test_dependency_with_uv_source_needs_manual_review() -> None:
    text = (
        '[project]\ndependencies = ["petastorm"]\n[tool.uv.sources]\npetastorm = { path = "x" }\n'
    )
    check_held(text, "PM402", "petastorm", PATH)


@each(
    '[project]\nname = "petastorm"\ndescription = "petastorm>=1"\n',
    '[tool.other]\nx = ["petastorm==0.12.1"]\n',
    '[project]\nkeywords = ["petastorm"]\n',
)
def test_other_toml_strings_are_unchanged(text: str) -> None:
    check_noop(text, PATH)


def test_pipfile_packages_and_scripts_are_renamed() -> None:
    before = (
        '[packages]\npetastorm = "==0.12.1"\nnumpy = "<1.20"\n\n'
        '[dev-packages]\npetastorm = {version = "*", extras = ["tf"]}\n\n'
        '[scripts]\npetastorm = "pip install petastorm"\n'
    )
    after = (
        '[packages]\nmdstorm = "*"\nnumpy = "<1.20"\n\n'
        '[dev-packages]\nmdstorm = {version = "*", extras = ["tf"]}\n\n'
        '[scripts]\npetastorm = "pip install mdstorm"\n'
    )
    check_rewrite(before, after, "Pipfile")


@each(
    ("pixi.toml", "[dependencies]\npetastorm = '*'\n"),
    ("pixi.toml", "[feature.train.target.linux-64.host-dependencies]\npetastorm = '*'\n"),
    ("pyproject.toml", "[tool.pixi.dependencies]\npetastorm = '>=0.12'\n"),
)
def test_package_that_pixi_installs_by_conda_needs_manual_review(path: str, text: str) -> None:
    check_held(text, "PM402", "petastorm", path)
