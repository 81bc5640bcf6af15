"""Settings in ``pyproject.toml``, and the options that set the mdstorm requirement."""

import re
import subprocess
from pathlib import Path

from tests.kit.migrating import each, invoke, write_modules

from mdstorm_migrate.cli.migrate import migrate as command

BEFORE = "from petastorm import make_reader\n"
OLD = "from petastorm.pytorch import BatchDataLoader\n"


def summary(*arguments: object) -> str:
    """Return the command's output without the diff."""
    return invoke(command, *arguments).stderr


def test_configuration_in_pyproject_is_applied(tmp_path: Path) -> None:
    write_modules(tmp_path, a=OLD, b=BEFORE, c_test=BEFORE)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.mdstorm.migrate]\nunsafe = true  # yes\nexclude = ["*_test.py"]\n'
        'select = ["pm1"]\nignore = [\n    "PM103",\n]\n[tool.other]\nunsafe = 3\n'
    )
    assert "2 files would change" in summary(tmp_path)
    assert "1 file would change" in summary("--safe", tmp_path)
    (tmp_path / "deep").mkdir()
    write_modules(tmp_path / "deep", a=OLD)
    assert "1 file would change" in summary(tmp_path / "deep" / "a.py")


def test_configuration_after_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    write_modules(tmp_path, a=BEFORE, b_test=BEFORE)
    text = '[tool.mdstorm.migrate]\nexclude = ["*_test.py"]\n'
    (tmp_path / "pyproject.toml").write_text(text, "utf-8-sig")
    assert "1 file would change" in summary(tmp_path)


@each(
    ("unsave = true", "has no key 'unsave'"),
    ('unsafe = "yes"', "unsafe in [tool.mdstorm.migrate] must be true or false"),
    ("select = [1]", "must be a list of strings, found [1]"),
    ('select = ["XX1"]', "select in [tool.mdstorm.migrate]: no rule is called XX1"),
    ("unsafe = yes", "pyproject.toml cannot be read: Invalid value"),
    ("[tool.mdstorm]\nunsafe = true", "has no key 'unsafe'; its keys are ['migrate']"),
    ("[tool.mdstorm]\nmigrate = true", "[tool.mdstorm.migrate] must be a table, found true"),
)
def test_invalid_configuration_exits_with_2(text: str, reason: str, tmp_path: Path) -> None:
    head = "" if text.startswith("[") else "[tool.mdstorm.migrate]\n"
    (tmp_path / "pyproject.toml").write_text(f"{head}{text}\n")
    result = invoke(command, tmp_path)
    assert result.exit_code == 2
    message = " ".join(result.stderr.replace("│", " ").split())
    assert reason in message
    assert "pyproject.toml" in message


@each(
    (OLD, "[tool.mdstorm]\nmigrate = {unsafe = true}\n"),
    (OLD, '["tool"."mdstorm".\'migrate\']\n"unsafe" = true\n'),
    (OLD, "\ufeff[tool.mdstorm.migrate]\nunsafe = true\n"),
    (BEFORE, "[project]\nname = {{ name }}\n"),  # invalid TOML, which has no configuration
)
def test_configuration_is_read_from_any_toml_form(text: str, toml: str, tmp_path: Path) -> None:
    write_modules(tmp_path, a=text)
    (tmp_path / "pyproject.toml").write_text(toml)
    assert "1 file would change" in summary(tmp_path)


ROOT = Path(__file__).parents[3]
URL = "https://example.org/simple"
INDEX = f"--extra-index-url {URL}"


def migrated(path: Path, before: str, *options: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before)
    done = invoke(command, "-w", "--no-diff", *options, path.parent)
    assert done.exit_code == 0, done.stderr
    after = path.read_text()
    invoke(command, "-w", "--no-diff", *options, path.parent)
    assert path.read_text() == after
    return after


@each(
    ("requirements.txt", "petastorm[tf]  # x\n", f"{INDEX}\nmdstorm[tf,torch]==0.2.*  # x\n"),
    ("constraints.txt", "petastorm<1\n", f"{INDEX}\nmdstorm==0.2.*\n"),
    (
        "Dockerfile",
        "RUN pip install -U petastorm\n",
        f'RUN pip install -U {INDEX} "mdstorm[torch]==0.2.*"\n',
    ),
    (
        "Dockerfile",
        'RUN ["pip", "install", "petastorm"]\n',
        f'RUN ["pip", "install", "--extra-index-url", "{URL}", "mdstorm[torch]==0.2.*"]\n',
    ),
    (
        "environment.yml",
        "dependencies:\n- pip:\n  - petastorm\n",
        f"dependencies:\n- pip:\n  - --extra-index-url {URL}\n  - mdstorm[torch]==0.2.*\n",
    ),
    (
        "pyproject.toml",
        '[tool.poetry.dependencies]\npetastorm = "^0.9"\n',
        '[tool.poetry.dependencies]\nmdstorm = {version = "==0.2.*", extras = ["torch"]}\n',
    ),
    (
        "pyproject.toml",
        '[project]\ndependencies = ["petastorm"]\n',
        '[project]\ndependencies = ["mdstorm[torch]==0.2.*"]\n',
    ),
    ("setup.cfg", "[options]\ninstall_requires = petastorm\n", None),
)
def test_requirement_option_is_written_in_each_file_format(
    name: str, before: str, after: str | None, tmp_path: Path
) -> None:
    options = ("--requirement", "mdstorm[torch] ==0.2.*", "--index", URL)
    expected = before.replace("petastorm", "mdstorm[torch]==0.2.*") if after is None else after
    assert migrated(tmp_path / "p" / name, before, *options) == expected


def test_notebook_that_keeps_petastorm_installs_both_libraries(tmp_path: Path) -> None:
    head = "# Databricks notebook source\n# MAGIC %pip install "
    code = "\n\n# COMMAND ----------\n\nfrom petastorm.unischema import _NamedtupleCache\n"
    before = f"{head}petastorm==0.9{code}from petastorm import make_reader\n"
    after = migrated(tmp_path / "n.py", before, "--requirement", "mdstorm>=0.2", "--no-todo")
    both = '"mdstorm>=0.2" petastorm==0.9'
    assert after.startswith(f"{head}{both}\n")


def test_requirement_and_index_are_read_from_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.mdstorm.migrate]\nrequirement = "mdstorm~=0.2"\nindex = "{URL}"\n'
    )
    path = tmp_path / "requirements.txt"
    assert migrated(path, "petastorm\n") == f"--extra-index-url {URL}\nmdstorm~=0.2\n"
    after = migrated(path, "petastorm\n", "--requirement", "mdstorm", "--index", "")
    assert after == "mdstorm\n"


@each("numpy", "mdstorm=0.2", "mdstorm[torch", "mdstorm 0.2")
def test_malformed_requirement_or_other_package_exits_with_2(wrong: str, tmp_path: Path) -> None:
    done = invoke(command, "--requirement", wrong, tmp_path)
    assert done.exit_code == 2
    assert "does not require mdstorm" in done.stderr
    (tmp_path / "pyproject.toml").write_text(f'[tool.mdstorm.migrate]\nrequirement = "{wrong}"\n')
    assert invoke(command, tmp_path).exit_code == 2


def test_extras_in_requirements_file_passed_alone_follow_code_in_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "a.py").write_text("from petastorm import make_reader\n")
    path = tmp_path / "requirements.txt"
    path.write_text("petastorm==0.9\n")
    assert invoke(command, "--check", path).exit_code == 0
    (tmp_path / "a.py").write_text("from mdstorm.pytorch import DataLoader\n")
    assert invoke(command, "-w", path).exit_code == 0
    assert path.read_text() == "mdstorm[torch]\n"


@each("https://host/x/mdstorm-0.1.0-py3-none-any.whl", None)
def test_requirement_option_accepts_wheel_path_or_url(wheel: str | None, tmp_path: Path) -> None:
    path = tmp_path / "dist" / "mdstorm-0.1.0-py3-none-any.whl"
    after = migrated(
        tmp_path / "requirements.txt", "petastorm\n", "--requirement", wheel or str(path)
    )
    assert after == f"mdstorm @ {wheel or path.as_uri()}\n"


def test_requirement_rules_selected_alone_treat_code_as_migrated(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from petastorm import make_reader\n")
    path = tmp_path / "requirements.txt"
    assert migrated(path, "petastorm==0.9\n", "--select", "PM4") == "mdstorm\n"


def test_pre_commit_hooks_match_requirements_docker_and_yaml_files() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    pattern = re.search(r"files: &files >-\n((?: {4}.*\n)+)", text)
    assert pattern is not None
    files = re.compile(" ".join(line.strip() for line in pattern[1].splitlines()))
    scanned = "a.py n.ipynb requirements/base.txt pyproject.toml docker/Dockerfile.gpu job.yml"
    scanned += " Makefile init.sh Pipfile x.json pins.freeze deploy/requirements bin/bootstrap"
    scanned += " .pylintrc cluster.tf templates/setup.sh.j2 Job.scala"
    assert [name for name in scanned.split() if not files.search(name)] == []
    others = ("image.png", ".gitignore", "data.csv", "src/app.ts")
    assert [name for name in others if files.search(name)] == []
