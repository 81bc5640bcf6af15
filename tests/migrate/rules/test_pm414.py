"""Entry points, and settings of other tools."""

from pathlib import Path

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate
from mdstorm_migrate.run.settings import Settings
from mdstorm_migrate.run.together import run

CODE = "PM414"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", '[project.scripts]\nx = "petastorm.tools.copy_dataset:main"\n'),
        ("pyproject.toml", '[project.entry-points.a]\nx = "petastorm.tools.copy_dataset:main"\n'),
        ("pyproject.toml", '[tool.poetry.scripts]\nx = "petastorm.benchmark.cli:main"\n'),
        (
            "pyproject.toml",
            '[tool.poetry.scripts]\nx = {reference = "petastorm.benchmark.cli:main"}\n',
        ),
        ("pyproject.toml", '[[tool.mypy.overrides]]\nmodule = "petastorm.*"\n'),
        (
            "pyproject.toml",
            '[[tool.mypy.overrides]]\nmodule = [\n  "a",\n  "petastorm.etl.*",\n]\n',
        ),
        ("pyproject.toml", '[tool.isort]\nknown_third_party = ["petastorm", "torch"]\n'),
        ("pyproject.toml", '[tool.ruff.lint.isort]\nknown-third-party = ["petastorm"]\n'),
        ("ruff.toml", '[lint.isort]\nknown-third-party = ["petastorm"]\n'),
        ("pyproject.toml", '[tool.pylint.main]\nignored-modules = ["petastorm"]\n'),
        ("pyproject.toml", '[tool.deptry.per_rule_ignores]\nDEP002 = ["petastorm"]\n'),
        ("pyproject.toml", '[tool.deptry]\nper_rule_ignores = {DEP003 = ["petastorm"]}\n'),
        (
            "setup.cfg",
            "[options.entry_points]\nconsole_scripts =\n    x = petastorm.benchmark.cli:main\n",
        ),
        ("setup.cfg", "[mypy-petastorm.*]\nignore_missing_imports = True\n"),
        ("mypy.ini", "[mypy-pyspark.*,petastorm.*]\nignore_missing_imports = True\n"),
        (".isort.cfg", "[settings]\nknown_third_party =\n    numpy\n    petastorm\n"),
        ("setup.cfg", "[isort]\nknown_third_party = petastorm,torch\n"),
        (".pylintrc", "[TYPECHECK]\nignored-modules=petastorm,torch\n"),
        (
            "setup.py",
            "setup(entry_points={'console_scripts': ['x = petastorm.tools.copy_dataset:main']})\n",
        ),
    ],
)
def test_what_means_the_same_with_mdstorm_follows(path: str, text: str) -> None:
    check_rewrite(text, text.replace("petastorm", "mdstorm"), path)


@pytest.mark.parametrize(
    ("path", "text", "fragment"),
    [
        (
            "pyproject.toml",
            '[project.scripts]\nx = "petastorm.tools.none:f"\n',
            "petastorm.tools.none:f",
        ),
        ("setup.cfg", "[options.entry_points]\na =\n  x = petastorm.gone:f\n", "petastorm.gone:f"),
        ("setup.py", "setup(entry_points={'a': ['x=petastorm.gone:f']})\n", "petastorm.gone:f"),
        ("pyproject.toml", '[tool.mypy]\nexclude = ["petastorm"]\n', "petastorm"),
        (
            "pyproject.toml",
            '[[tool.mypy.overrides]]\nmodule = "petastorm.gone.*"\n',
            "petastorm.gone.*",
        ),
        ("pyproject.toml", '[tool.coverage.run]\nomit = ["*/petastorm/*"]\n', "petastorm"),
        (".coveragerc", "[run]\nomit =\n    */petastorm/*\n", "petastorm"),
        ("pyproject.toml", '[tool.isort]\nknown_first_party = ["petastorm"]\n', "petastorm"),
        ("pyproject.toml", '[tool.importlinter]\nroot_packages = ["petastorm"]\n', "petastorm"),
        (
            "pyproject.toml",
            '[tool.ruff.lint.flake8-tidy-imports.banned-api]\npetastorm.msg = "no"\n',
            "petastorm",
        ),
        (".pylintrc", "[IMPORTS]\ndeprecated-modules=petastorm\n", "petastorm"),
        (".github/dependabot.yml", "ignore:\n  - dependency-name: petastorm\n", "petastorm"),
        ("renovate.json", '{"matchPackageNames": ["petastorm"]}\n', "petastorm"),
        ("pyrightconfig.json", '{"ignore": ["petastorm"]}\n', "petastorm"),
    ],
)
def test_other_settings_are_spoken_of(path: str, text: str, fragment: str) -> None:
    check_noop(text, path)
    check_finding(text, CODE, fragment, path)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "setup.cfg",
            "[isort]\n# known_third_party = petastorm\nknown_third_party = petastorm_x\n",
        ),
        (
            "pyproject.toml",
            '[project]\nname = "petastorm"\n[project.scripts]\nx = "ours.petastorm:f"\n',
        ),
        ("pytest.ini", "[pytest]\nmarkers = petastorm: slow\naddopts = -m 'not petastorm'\n"),
        ("setup.py", "setup(description='see petastorm.tools:main')\n"),
    ],
)
def test_comments_and_other_names_stay(path: str, text: str) -> None:
    check_noop(text, path)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tox.ini", "[pytest]\nfilterwarnings =\n    ignore::FutureWarning:petastorm.*\n"),
        ("setup.cfg", "[tool:pytest]\nfilterwarnings = ignore::FutureWarning:petastorm\n"),
        (
            "pyproject.toml",
            '[tool.pytest.ini_options]\nfilterwarnings = ["ignore::FutureWarning:petastorm.*"]\n',
        ),
    ],
)
def test_filters_of_warnings_follow_with_unsafe(path: str, text: str) -> None:
    check_rewrite(text, text.replace("petastorm", "mdstorm"), path, unsafe=True)
    check_noop(text, path)


#: mdstorm has no workers to subclass.
STAYS = "from petastorm.reader import ArrowReaderWorker\n"
MOVES = "from petastorm import make_reader\n"


def migrated(root: Path, files: dict[str, str]) -> dict[str, str]:
    """Return what the files of a project become that change, without TODO comments."""
    for name, text in files.items():
        (root / name).write_text(text)
    found = run(sorted(root / name for name in files), Settings(todo=False))
    return {one.path.name: one.outcome.after.decode() for one in found if one.changed}


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (
            "pyproject.toml",
            '[[tool.mypy.overrides]]\nmodule = ["a", "petastorm.*"]\n',
            '[[tool.mypy.overrides]]\nmodule = ["a", "mdstorm.*", "petastorm.*"]\n',
        ),
        ("mypy.ini", "[mypy-petastorm.*]\nx = 1\n", "[mypy-mdstorm.*,petastorm.*]\nx = 1\n"),
        (
            ".isort.cfg",
            "[settings]\nknown_third_party =\n    petastorm\n",
            "[settings]\nknown_third_party =\n    mdstorm\n    petastorm\n",
        ),
        (
            "setup.cfg",
            "[isort]\nknown_third_party = a,petastorm\n",
            "[isort]\nknown_third_party = a,mdstorm,petastorm\n",
        ),
    ],
)
def test_where_some_code_stays_both_are_named(
    name: str, before: str, after: str, tmp_path: Path
) -> None:
    code = {"stays.py": STAYS, "moves.py": MOVES}
    assert migrated(tmp_path, {**code, name: before})[name] == after
    assert name not in migrated(tmp_path, {**code, name: after})


def test_where_all_code_stays_settings_do(tmp_path: Path) -> None:
    files = {"stays.py": STAYS, "mypy.ini": "[mypy-petastorm.*]\nx = 1\n"}
    assert migrated(tmp_path, files) == {}


def test_an_entry_point_that_mdstorm_lacks_keeps_petastorm_required(tmp_path: Path) -> None:
    text = (
        '[project]\ndependencies = ["petastorm"]\n[project.scripts]\n'
        'a = "petastorm.gone:f"\nb = "petastorm.tools.copy_dataset:main"\n'
    )
    files = {"moves.py": MOVES, "pyproject.toml": text}
    after = migrated(tmp_path, files)["pyproject.toml"]
    assert '"mdstorm", "pyarrow<15", "numpy<2", "petastorm"' in after
    assert 'b = "mdstorm.tools.copy_dataset:main"' in after


@pytest.mark.parametrize(
    "dependency",
    [
        '[project]\ndependencies = ["petastorm"]\n[tool.uv.sources]\npetastorm = {path = "x"}\n',
        '[project]\ndependencies = ["petastorm @ https://host/fork.zip"]\n',
        '[tool.poetry.dependencies]\npetastorm = {git = "https://host/fork"}\n',
    ],
)
def test_an_entry_point_waits_for_a_fork(dependency: str) -> None:
    text = f'{dependency}[project.scripts]\nx = "petastorm.benchmark.cli:main"\n'
    check_noop(text, "pyproject.toml")
    check_finding(text, CODE, "petastorm.benchmark.cli:main", "pyproject.toml")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("setup.cfg", "[tool:pytest]\naddopts = -q -W ignore::FutureWarning:{}.fs_utils\n"),
        ("tox.ini", "[testenv]\ncommands = pytest -W ignore::UserWarning:{} petastorm_tests\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = ["-Wignore::UserWarning:{}"]\n'),
    ],
)
def test_filters_of_warnings_in_options_wait_for_review(path: str, text: str) -> None:
    check_noop(text.format("petastorm"), path)
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), path, unsafe=True)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "pyproject.toml",
            '[tool.pytest.ini_options]\nfilterwarnings = ["ignore::petastorm.errors.X"]\n',
        ),
        ("setup.cfg", "[tool:pytest]\nfilterwarnings =\n  ignore::petastorm.errors.X\n"),
    ],
)
def test_a_class_of_warnings_that_mdstorm_lacks_needs_manual_review(path: str, text: str) -> None:
    result = check_noop(text, path)
    assert [(one.rule, one.cls) for one in result.findings] == [(CODE, "manual")]


def test_entry_points_of_a_package_of_ones_own_stay(tmp_path: Path) -> None:
    (tmp_path / "src" / "petastorm").mkdir(parents=True)
    (tmp_path / "src" / "petastorm" / "__init__.py").touch()
    text = "[options.entry_points]\nconsole_scripts =\n    storm = petastorm.tracker:main\n"
    result = check_noop(text, str(tmp_path / "setup.cfg"))
    assert [one.cls for one in result.findings] == ["note"]


@pytest.mark.parametrize("table", ["pdm.scripts", "poe.tasks"])
def test_functions_that_tasks_call_are_those_of_mdstorm(table: str) -> None:
    text = f'[tool.{table}]\nx = {{call = "petastorm.etl.petastorm_generate_metadata:main"}}\n'
    check_rewrite(text, text.replace("petastorm.", "mdstorm."), "pyproject.toml")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".pre-commit-config.yaml", 'args: ["--ignored-modules={0},{0}.spark", "-q"]\n'),
        ("a.yaml", "args:\n  - --ignored-modules\n  - {0}.*\n"),
        ("tox.ini", "[testenv]\ncommands = pylint --ignored-modules={0} src\n"),
        ("lint.sh", "isort --thirdparty {0} src\n"),
        ("lint.sh", "isort -o numpy -o {0} src\nsort -o petastorm a\n"),
        (
            ".pre-commit-config.yaml",
            '- id: isort\n  args: ["-q", "-o", "{0}"]\n- id: own\n  args: ["-o", "petastorm"]\n',
        ),
        (".pre-commit-config.yaml", "- id: isort\n  args: [--profile=black, -o, {0}]\n"),
        (".pre-commit-config.yaml", "- id: isort\n  args: [--thirdparty, {0}]\n"),
    ],
)
def test_options_that_name_modules_follow_the_code(path: str, text: str) -> None:
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), path)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("job.yaml", 'env:\n  - name: PYTHONWARNINGS\n    value: "ignore::FutureWarning:{}.x"\n'),
        ("ci.yml", "PYTHONWARNINGS: ignore::FutureWarning:{}\n"),
        ("Dockerfile", "ENV PYTHONWARNINGS=error::FutureWarning:{}.fs_utils\n"),
        ("a.sh", "pytest -W ignore::FutureWarning:{}\n"),
    ],
)
def test_filters_of_warnings_in_variables_and_commands_wait_for_review(
    path: str, text: str
) -> None:
    check_noop(text.format("petastorm"), path)
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), path, unsafe=True)


@pytest.mark.parametrize("name", ["renovate.json5", ".renovaterc", "renovate.json"])
def test_rules_about_updates_are_mentioned_once_a_line(name: str) -> None:
    text = '{"packageRules": [{"matchPackageNames": ["petastorm"], "groupName": "petastorm"}]}\n'
    (found,) = migrate(text, path=name, todo=False).findings
    assert (found.rule, found.cls) == (CODE, "note")


def test_entry_points_are_spoken_of_with_one_voice() -> None:
    text = "setup(entry_points='''\n  [x]\n  a = petastorm:make_reader\n''')\n"
    result = migrate(text, path="setup.py")
    assert "PM130" not in {found.rule for found in result.findings}
    assert "a = mdstorm:make_reader" in result.output


@pytest.mark.parametrize(
    ("table", "before", "after"),
    [
        ("[[tool.mypy.overrides]]\nmodule", '"petastorm.*"', '["mdstorm.*", "petastorm.*"]'),
        ("[tool.isort]\nknown_third_party", "'petastorm'", "['mdstorm', 'petastorm']"),
        ("[tool.pylint.main]\nignored-modules", '"petastorm,a"', '"mdstorm,petastorm,a"'),
        ("[tool.pylint.main]\nignored-modules", '"a,petastorm"', '"a,mdstorm,petastorm"'),
        ("[tool.mypy]\noverrides", '[{module = "petastorm"}]', None),
        ("[tool.isort]\nknown_third_party", '["petastorm"]', '["mdstorm", "petastorm"]'),
    ],
)
def test_a_setting_of_both_libraries_is_still_toml(
    tmp_path: Path, table: str, before: str, after: str | None
) -> None:
    (tmp_path / "a.py").write_text("from petastorm import make_reader\n")
    (tmp_path / "b.py").write_text("import petastorm\nprint(petastorm.__version__ < '1')\n")
    path = tmp_path / "pyproject.toml"
    path.write_text(f"{table} = {before}\n")
    for _ in range(2):
        found = list(run(sorted(tmp_path.iterdir()), Settings(todo=False), write=True))
        assert [one for one in found if one.outcome.problems] == []
        assert path.read_text() == f"{table} = {after or before}\n"


def test_an_option_in_a_list_gets_no_second_item(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from petastorm import make_reader\n")
    (tmp_path / "b.py").write_text("import petastorm\nprint(petastorm.__version__ < '1')\n")
    path = tmp_path / ".pre-commit-config.yaml"
    path.write_text('args: ["--ignored-modules", "petastorm"]\n')
    list(run(sorted(tmp_path.iterdir()), Settings(todo=False), write=True))
    assert path.read_text() == 'args: ["--ignored-modules", "mdstorm,petastorm"]\n'


def test_deptrys_names_of_distributions_follow_the_requirement() -> None:
    ignored = '[tool.deptry.per_rule_ignores]\nDEP002 = ["petastorm"]\nDEP003 = ["petastorm"]\n'
    project = '[project]\ndependencies = ["petastorm"]\n'
    source = '[tool.uv.sources]\npetastorm = { git = "https://example.com/fork" }\n'
    both = ignored.replace("petastorm", "mdstorm")
    check_rewrite(
        f"{project}{ignored}",
        f"{project}{ignored}".replace("petastorm", "mdstorm"),
        "pyproject.toml",
    )
    moved = migrate(f"{project}{source}{ignored}", path="pyproject.toml", todo=False).output
    assert moved.endswith(both.replace('DEP002 = ["mdstorm"]', 'DEP002 = ["petastorm"]'))
    inline = '[tool.deptry]\nper_rule_ignores = {DEP003 = ["x"], DEP002 = ["petastorm"]}\n'
    check_noop(f"{project}{source}{inline}", "pyproject.toml")
