"""pyproject.toml."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite, check_silence

from mdstorm_migrate.api import migrate

PATH = "pyproject.toml"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '[project]\nname = "petastorm"\ndependencies = ["petastorm[torch]>=0.9", "numpy"]\n',
            '[project]\nname = "petastorm"\ndependencies = ["mdstorm[torch]", "numpy"]\n',
        ),
        (
            "[project]\ndependencies = [\n  'petastorm',  # petastorm\n]\n",
            "[project]\ndependencies = [\n  'mdstorm',  # petastorm\n]\n",
        ),
        (
            "[project.optional-dependencies]\ntrain = [\"petastorm ; os_name == 'posix'\"]\n",
            "[project.optional-dependencies]\ntrain = [\"mdstorm ; os_name == 'posix'\"]\n",
        ),
        (
            '[dependency-groups]\ndev = ["petastorm~=0.12"]\n',
            '[dependency-groups]\ndev = ["mdstorm"]\n',
        ),
        (
            '[tool.poetry.dependencies]\npetastorm = "^0.11"\n',
            '[tool.poetry.dependencies]\nmdstorm = "*"\n',
        ),
        (
            "[tool.poetry.group.dev.dependencies]\n"
            'petastorm = {version = ">=0.11.0", extras = ["torch", "docs"], optional = true}\n',
            "[tool.poetry.group.dev.dependencies]\n"
            'mdstorm = {version = "*", extras = ["torch"], optional = true}\n',
        ),
        (
            '[tool.poetry.dependencies.petastorm]\nversion = "0.1"\n\n[tool.x]\nversion = "1"\n',
            '[tool.poetry.dependencies.mdstorm]\nversion = "*"\n\n[tool.x]\nversion = "1"\n',
        ),
        (
            '[tool.poetry.extras]\ndata = ["petastorm", "pandas"]\n',
            '[tool.poetry.extras]\ndata = ["mdstorm", "pandas"]\n',
        ),
    ],
)
def test_dependencies_are_renamed(before: str, after: str) -> None:
    check_rewrite(before, after, PATH)


@pytest.mark.parametrize(
    "text",
    [
        '[tool.other]\nengine = "petastorm"\n',
        '[project]\ndescription = "petastorm"\n',
        '[project.scripts]\npetastorm = "x:main"\n',
        '# dependencies = ["petastorm"]\n',
        '[project]\nreadme = """\ndependencies = ["petastorm"]\n"""\n',
        '[tool.poetry.dependencies]\npetastorm = {git = "https://host/petastorm-fork"}\n',
    ],
)
def test_other_strings_and_keys_stay(text: str) -> None:
    check_noop(text, PATH)


def test_a_dependency_from_a_repository_needs_manual_review() -> None:
    text = '[tool.poetry.dependencies]\npetastorm = {git = "https://host/fork"}\n'
    check_finding(text, "PM402", "petastorm", PATH)


def test_the_name_of_a_group_that_is_included_stays() -> None:
    check_rewrite(
        '[dependency-groups]\npetastorm = ["petastorm"]\n'
        'all = [{include-group = "petastorm"}, "petastorm>=0.12"]\n',
        '[dependency-groups]\npetastorm = ["mdstorm"]\n'
        'all = [{include-group = "petastorm"}, "mdstorm"]\n',
        PATH,
    )


def test_each_of_several_constraints_loses_its_version() -> None:
    check_rewrite(
        "[tool.poetry.dependencies]\npetastorm = [\n"
        '  {version = "0.11.5", python = "<3.8", extras = ["torch", "docs"]},  # ]\n'
        '  {version = "^0.12", python = ">=3.8"},\n]\nother = {version = "1"}\n',
        "[tool.poetry.dependencies]\nmdstorm = [\n"
        '  {version = "*", python = "<3.8", extras = ["torch"]},  # ]\n'
        '  {version = "*", python = ">=3.8"},\n]\nother = {version = "1"}\n',
        PATH,
    )


@pytest.mark.parametrize(
    "source",
    [
        '[tool.uv.sources]\npetastorm = { git = "https://host/fork" }\n',
        '[tool.uv.sources.petastorm]\npath = "../fork"\n',
        '[tool.uv.sources]\nPetastorm = [{ index = "ours" }, { workspace = true }]\n',
    ],
)
def test_a_dependency_waits_with_the_source_that_uv_takes_it_from(source: str) -> None:
    text = f'[project]\ndependencies = ["petastorm[torch]"]\n{source}'
    check_noop(text, PATH)
    check_finding(text, "PM402", "petastorm[torch]", PATH)


def test_sources_of_others_hold_nothing_back() -> None:
    text = '[project]\ndependencies = ["petastorm"]\n[tool.uv.sources]\ntorch = { path = "x" }\n'
    check_rewrite(text, text.replace("petastorm", "mdstorm"), PATH)


@pytest.mark.parametrize(
    "value",
    [
        '{version = "^0.11", python = "<3.10"}',
        "{version = '0.1', markers = \"python_version < '3.10'\"}",
        '[{version = "0.1", python = "<3.8"}, {version = "0.2", python = "~3.8"}]',
    ],
)
def test_dependencies_of_old_pythons_need_manual_review(value: str) -> None:
    text = f"[tool.poetry.dependencies]\npetastorm = {value}\n"
    check_noop(text, PATH)
    check_finding(text, "PM402", "petastorm", PATH)


@pytest.mark.parametrize(
    "index", ["{name} = {{ index = 'a' }}", "[tool.uv.sources.{name}]\nindex='a'"]
)
def test_an_index_of_its_own_is_no_fork(index: str) -> None:
    text = '[project]\ndependencies = ["{name}"]\n[tool.uv.sources]\n' + index
    other = '\n[[tool.uv.index]]\nurl = "https://host/petastorm/simple"\n'
    before, after = text.format(name="petastorm") + other, text.format(name="mdstorm") + other
    check_rewrite(before, before.replace("petastorm", "mdstorm", 1), PATH)
    check_rewrite(before, after, PATH, unsafe=True)
    assert {one.cls for one in migrate(before, path=PATH).findings} == {"review"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '[tool.flit.metadata]\nrequires = ["petastorm (>=0.12)", "six"]\n',
            '[tool.flit.metadata]\nrequires = ["mdstorm", "six"]\n',
        ),
        (
            '[tool.flit.metadata.requires-extra]\nx = ["petastorm[torch] (>=0.12)"]\n',
            '[tool.flit.metadata.requires-extra]\nx = ["mdstorm[torch]"]\n',
        ),
        (
            "[tool.hatch.envs.test.overrides]\n"
            'matrix.a.dependencies = [{ value = "petastorm==0.12.1", if = ["1"] }]\n',
            "[tool.hatch.envs.test.overrides]\n"
            'matrix.a.dependencies = [{ value = "mdstorm", if = ["1"] }]\n',
        ),
        (
            '[tool.pdm.resolution.overrides]\npetastorm = "==0.12.1"\n',
            '[tool.pdm.resolution.overrides]\nmdstorm = ">=0"\n',
        ),
        (
            '[tool.uv]\nconstraint-dependencies = ["petastorm[torch]<0.13"]\n',
            '[tool.uv]\nconstraint-dependencies = ["mdstorm"]\n',
        ),
    ],
    ids=["flit", "flit extras", "hatch", "pdm", "uv"],
)
def test_tables_of_other_tools_hold_requirements(before: str, after: str) -> None:
    check_rewrite(before, after, PATH)


def test_an_override_by_a_url_needs_manual_review() -> None:
    text = '[tool.pdm.resolution.overrides]\npetastorm = "https://host/x.whl"\n'
    check_noop(text, PATH)
    check_finding(text, "PM402", "petastorm", PATH)


PIXI = """[dependencies]
python = "3.11.*"
petastorm = ">=0.12,<0.13"

[pypi-dependencies]
numpy = "*"

[feature.train.pypi-dependencies]
petastorm = { version = ">=0.12", extras = ["torch"] }
"""


@pytest.mark.parametrize(("path", "head"), [("hatch.toml", ""), (PATH, "tool.hatch.")])
def test_environments_of_hatch_and_their_scripts_move_together(path: str, head: str) -> None:
    text = (
        f'[{head}envs.bench]\ndependencies = ["{{0}}", "webdataset"]\n'
        f'[{head}envs.bench.scripts]\nrun = "python -m {{0}}.benchmark.cli {{{{args}}}}"\n'
    )
    check_rewrite(text.format("petastorm"), text.format("mdstorm"), path)


@pytest.mark.parametrize(("path", "head"), [("pixi.toml", ""), ("pyproject.toml", "tool.pixi.")])
def test_of_pixi_what_pip_installs_is_renamed_and_what_conda_does_reported(
    path: str, head: str
) -> None:
    text = PIXI.replace("\n[", f"\n[{head}").replace("[dep", f"[{head}dep")
    old = 'petastorm = { version = ">=0.12"'
    result = check_rewrite(text, text.replace(old, 'mdstorm = { version = "*"'), path, todo=False)
    (finding,) = result.findings
    assert (finding.rule, finding.cls) == ("PM402", "manual")
    assert result.source[: finding.start].endswith('python = "3.11.*"\n')
    check_noop(text.replace("3.11.*", "3.8.*"), path)


LEGACY = """[tool.tox]
legacy_tox_ini = '''
[tox]
envlist = py311
[testenv]
deps =
    petastorm[torch]>=0.11
    old: petastorm==0.9
commands = pip install petastorm==0.12
'''
"""


def test_an_ini_file_of_tox_in_a_string_is_read() -> None:
    after = LEGACY.replace("petastorm[torch]>=0.11", "mdstorm[torch]")
    after = after.replace("petastorm==0.9", "mdstorm").replace("petastorm==0.12", "mdstorm")
    check_rewrite(LEGACY, after, PATH)
    for old in (
        LEGACY.replace("py311", "py37,py38"),
        LEGACY.replace("\n    old", "\n    numpy<1.20\n    old"),
    ):
        check_noop(old, PATH)
    check_rewrite(
        LEGACY.replace("py311", "py37,py38"), after.replace("py311", "py310"), PATH, unsafe=True
    )


@pytest.mark.parametrize(("path", "head"), [("tox.toml", ""), ("pyproject.toml", "tool.tox.")])
def test_tables_of_tox_are_read(path: str, head: str) -> None:
    top = "[tool.tox]\n" if head else ""
    text = f"""{top}env_list = ["3.11", "lint"]
[{head}env_run_base]
deps = ["petastorm>=0.11", "pytest"]
[{head}env.lint]
deps = ["petastorm==0.12"]
"""
    after = text.replace("petastorm>=0.11", "mdstorm").replace("petastorm==0.12", "mdstorm")
    check_rewrite(text, after, path)
    (finding, *_) = check_noop(text.replace("3.11", "py38"), path).findings
    assert (finding.rule, finding.cls) == ("PM412", "manual")


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('[tool.unknown]\nx = ["petastorm==0.12.1"]\n', "petastorm==0.12.1"),
    ],
)
def test_requirements_of_unknown_tools_and_conda_need_manual_review(
    text: str, fragment: str
) -> None:
    check_noop(text, PATH)
    check_finding(text, "PM402", fragment, PATH)


URL = "https://github.com/uber/petastorm"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PATH, f'[project.urls]\nPetastorm = "{URL}"\n'),
        ("setup.cfg", f"[metadata]\nproject_urls =\n    Petastorm = {URL}\n"),
        ("mkdocs.yml", f"repo_url: {URL}\n"),
        ("sbom.json", f'[{{"Name": "petastorm", "URL": "{URL}"}}]\n'),
        ("meta.yaml", f"package:\n  name: x\nabout:\n  home: {URL}\n"),
    ],
)
def test_the_address_of_a_page_installs_nothing(path: str, text: str) -> None:
    check_silence(text, path)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PATH, f'[tool.uv.sources]\npetastorm = {{ git = "{URL}" }}\n'),
        ("play.yml", f"- git:\n    repo: {URL}\n    dest: /src\n"),
        ("ci.yml", f"env:\n  PETASTORM_URL: {URL}\n"),
        ("ci.yml", f"run: git clone {URL}\n"),
        ("meta.yaml", f"package:\n  name: x\nsource:\n  git_url: {URL}\n"),
        ("a.sh", f"repository={URL}\n"),
    ],
)
def test_the_address_of_what_is_cloned_needs_manual_review(path: str, text: str) -> None:
    found = migrate(text, path=path).findings
    assert any(one.cls == "manual" and "repository" in one.text for one in found)
