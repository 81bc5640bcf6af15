"""What is installed, replaced and allowed fits to what code imports, before and after ``-w``."""

import json
import re
from pathlib import Path

import pytest
from tests.kit.migrating import each, invoke, write_files

from mdstorm_migrate.cli.migrate import migrate

READS = "from petastorm import make_reader\n"
#: A file whose import stays on Petastorm, because mdstorm does not have the class.
STAYS = "from petastorm.workers_pool.thread_pool import ThreadPool\n"
#: A command of Petastorm that mdstorm does not have.
SCRIPT = "petastorm-throughput.py u"
MOVED = READS.replace("petastorm", "mdstorm")


def written(root: Path, files: dict[str, str], *options: str) -> dict[str, str]:
    """Return a project's files after ``-w``; a second run changes nothing."""
    write_files(root, files)
    for _ in range(2):
        invoke(migrate, "-w", "-q", "--no-diff", "--no-todo", *options, root)
    return {name: (root / name).read_text() for name in files}


def conditions(root: Path, *subjects: str) -> list[str]:
    """Return the conditions with these subjects, as ``file:line``, that ``--check`` reports."""
    report = root / "report.json"
    invoke(migrate, "--check", "-q", "--no-diff", "--report", report, root)
    found = json.loads(report.read_text())["conditions"]
    report.unlink()
    shown = (f"{one['path']}:{one['line']}" for one in found if one["subject"] in subjects)
    return [one.replace(f"{root}/", "") for one in shown]


def test_import_on_line_with_other_statement_keeps_requirement(tmp_path: Path) -> None:
    files = {"a.py": READS, "b.py": f"import sys; {STAYS}", "requirements.txt": "petastorm\n"}
    after = written(tmp_path, files)
    assert after["requirements.txt"] == "mdstorm\npetastorm\n"
    assert after["a.py"] == MOVED


def test_import_on_line_with_other_statement_moves_requirement(tmp_path: Path) -> None:
    files = {"a.py": f"import sys; {READS}", "Pipfile": '[packages]\npetastorm = "*"\n'}
    after = written(tmp_path, files)
    assert after == {"a.py": f"import sys; {MOVED}", "Pipfile": '[packages]\nmdstorm = "*"\n'}


@each(
    (
        "Dockerfile",
        f"RUN pip install {{}}\nRUN {SCRIPT}\nCOPY t.py /\nCMD python /t.py\n",
    ),
    ("infra/init.sh", f"pip install {{}}\n{SCRIPT}\n"),
    ("infra/job.json", f'{{{{"init": ["pip install {{}}", "{SCRIPT}"]}}}}\n'),
    (
        "pyproject.toml",
        f'[tool.hatch.envs.x.scripts]\na = "pip install {{}}"\nb = "{SCRIPT}"\n',
    ),
    ("Pipfile", f'[scripts]\na = "pip install {{}}"\nb = "{SCRIPT}"\n'),
    (
        ".github/workflows/ci.yml",
        "- run: pip install {}\n- run: python -c 'import petastorm.workers_pool'\n",
    ),
)
def test_command_that_needs_petastorm_does_not_hide_code_beside_it(
    name: str, text: str, tmp_path: Path
) -> None:
    after = written(tmp_path, {"t.py": READS, name: text.format("petastorm")})
    assert after == {"t.py": MOVED, name: text.format("mdstorm petastorm")}
    assert conditions(tmp_path, "misfit") == []


#: Files with two installations, of which one only runs what mdstorm does not have.
_COMPOSE = f"""\
services:
  bench:
    image: python:3.8
    command: bash -c "pip install petastorm && {SCRIPT}"
  train:
    image: python:3.11
    command: bash -c "pip install {{}} && python t.py"
"""
_JOBS = f"""\
jobs:
  bench:
    steps:
      - uses: actions/setup-python@v5
        with: {{{{python-version: "3.8"}}}}
      - run: pip install petastorm
      - run: {SCRIPT}

  test:
    steps:
      - uses: actions/checkout@v4
      - run: pip install {{}} && pytest
"""
_SCRIPTS = f"""\
bench:
  script:
    - pip install mdstorm petastorm
    - {SCRIPT}
test:
  script: pip install {{}} && pytest
"""
_STAGES = """\
FROM python:3.8 AS bench
RUN pip install petastorm==0.12.1
CMD ["petastorm-throughput.py"]

FROM python:3.11
RUN pip install torch {}
COPY t.py /
"""
_ON_STAGE = f"""\
FROM python:3.11 AS base
RUN pip install {{}}
COPY t.py /
FROM base AS bench
RUN pip install petastorm && {SCRIPT}
"""
_BUILT = f"""\
FROM python:3.8 as Build
RUN pip install --target /x petastorm
FROM python:3.8
COPY --from=Build /x /x
CMD {SCRIPT}
FROM python:3.11
RUN pip install {{}}
COPY t.py /
"""
_CONTAINERS = f"""\
kind: Pod
spec:
  containers:
  - name: bench
    args: ["-c", "pip install petastorm && {SCRIPT}"]
  - name: train
    args: ["-c", "pip install {{}} && python t.py"]
---
kind: CronJob
spec:
  jobTemplate:
    spec:
      containers:
        - args: ["-c", "pip install petastorm && {SCRIPT}"]
"""
_QUOTED = f"""\
"services":
  'bench':
    command: pip install petastorm && {SCRIPT}
  "train":
    command: pip install {{}} && python t.py
"""
_WRITES_YAML = f"""\
jobs:
  bench:
    steps:
      - run: |
          echo > a.yml <<END
          ---
          services:
            a: {{}}
      - run: pip install petastorm
      - run: {SCRIPT}
  train:
    steps:
      - run: pip install {{}}
      - run: python t.py
""".replace("a: {}", "a: 1")
_TOX = f"""\
[testenv]
deps = {{}}
commands = pytest
[testenv:bench]
deps =
    petastorm
commands = {SCRIPT}
"""


@each(
    ("docker-compose.yml", _COMPOSE),
    (".github/workflows/ci.yml", _JOBS),
    (".gitlab-ci.yml", _SCRIPTS),
    ("Dockerfile", _STAGES),
    ("Dockerfile", _ON_STAGE),
    ("Dockerfile", _BUILT),
    ("pod.yaml", _CONTAINERS),
    ("docker-compose.yml", _QUOTED),
    (".github/workflows/ci.yml", _WRITES_YAML),
    ("tox.ini", _TOX),
)
def test_part_with_own_installation_keeps_petastorm_only_there(
    name: str, text: str, tmp_path: Path
) -> None:
    files = {"t.py": READS, name: text.format("petastorm"), "requirements.txt": "petastorm\n"}
    after = written(tmp_path, files)
    assert after == {"t.py": MOVED, name: text.format("mdstorm"), "requirements.txt": "mdstorm\n"}
    assert conditions(tmp_path, "misfit", "python") == []


@each("description='petastorm experiments'", "keywords=['petastorm', 'spark']", "name='petastorm'")
def test_name_in_other_argument_of_setup_requires_nothing(argument: str, tmp_path: Path) -> None:
    setup = f"from setuptools import setup\nsetup(version='0.1', {argument})\n"
    files = {"src/a.py": READS, "requirements.txt": "-e .\npetastorm==0.12.1\n", "setup.py": setup}
    after = written(tmp_path, files)
    assert (after["src/a.py"], after["requirements.txt"]) == (MOVED, "-e .\nmdstorm\n")
    assert conditions(tmp_path, "misfit") == []


@each((".sh", ""), ("", "#!/bin/bash\n"))
def test_script_with_own_installation_keeps_petastorm_only_there(
    suffix: str, head: str, tmp_path: Path
) -> None:
    train, bench, install = f"train{suffix}", f"bench{suffix}", f"{head}pip install petastorm\n"
    files = {"t.py": READS, train: install, bench: f"{install}{SCRIPT}\n"}
    moved = install.replace("petastorm", "mdstorm")
    both = f"{head}pip install mdstorm petastorm\n{SCRIPT}\n"
    assert written(tmp_path, files) == {"t.py": MOVED, train: moved, bench: both}


def test_part_without_installation_is_served_by_all_others(tmp_path: Path) -> None:
    jobs = _JOBS.replace("      - run: pip install petastorm\n", "").format
    files = {"t.py": READS, "ci.yml": jobs("petastorm"), "requirements.txt": "petastorm\n"}
    after = written(tmp_path, files)
    assert after["ci.yml"] == jobs("mdstorm petastorm")
    assert after["requirements.txt"] == "mdstorm\npetastorm\n"


@each(
    ("Dockerfile", "FROM x AS a\nRUN pip install torch\nFROM a\nCOPY t.py /\nRUN {}\n"),
    ("tox.ini", "[testenv]\ndeps = torch\n[testenv:x]\ncommands =\n    {}\n    pytest\n"),
    (".gitlab-ci.yml", "before_script: pip install torch\nt:\n  script:\n    - {}\n    - pytest\n"),
)
def test_part_has_packages_of_what_it_is_built_on(name: str, text: str, tmp_path: Path) -> None:
    code = "from petastorm.pytorch import DataLoader\n"
    files = {"t.py": code, name: text.format("pip install petastorm")}
    assert written(tmp_path, files)[name] == text.format("pip install mdstorm")


def test_service_is_served_by_the_stage_that_it_runs(tmp_path: Path) -> None:
    image = "FROM x AS a\nRUN pip install {}\nCOPY t.py /\nFROM x AS b\nRUN pip install {}\n"
    service = "services:\n  s:\n    build: {{context: ., target: {}}}\n    command: {}\n"
    files = {"t.py": READS, "Dockerfile": image.format("petastorm", "petastorm")}
    files["compose.yaml"] = service.format("a", SCRIPT)
    assert written(tmp_path, files)["Dockerfile"].splitlines()[1] == (
        "RUN pip install mdstorm petastorm"
    )
    files["compose.yaml"] = service.format("b", SCRIPT)
    assert written(tmp_path, files)["Dockerfile"].splitlines()[1] == "RUN pip install mdstorm"


@each("<<: *a", "extends: a", "image: acme/a", "build: {context: ., target: x}")
def test_service_is_served_by_the_image_of_another_service(word: str, tmp_path: Path) -> None:
    build = "build: {context: ., target: x}"
    services = f"services:\n  a: &a\n    {build}\n    image: acme/a\n    command: python /t.py\n"
    image = "FROM x AS x\nRUN pip install {}\nCOPY t.py /\nFROM x AS z\nRUN pip install {}\n"
    files = {"t.py": READS, "Dockerfile": image.format("petastorm", "torch")}
    files["compose.yaml"] = f"{services}  b:\n    {word}\n    command: {SCRIPT}\n"
    after = written(tmp_path, files)["Dockerfile"]
    assert after == image.format("mdstorm petastorm", "torch")


_JOB = """\
kind: Job
spec:
  template:
    spec:
      containers:
      - name: a
        image: acme/read
        command: ["petastorm-throughput.py", "u"]
"""


@each("COPY src/t.py /app/", "COPY src /app", "WORKDIR /app\nCOPY src/t.py ./", "COPY . /app")
def test_job_without_packages_is_served_by_the_images_of_the_project(
    copy: str, tmp_path: Path
) -> None:
    image = f"FROM x AS a\nRUN pip install torch\nFROM x\nRUN pip install {{}}\n{copy}\n"
    files = {"src/t.py": READS, "k8s/job.yaml": _JOB, "Dockerfile": image.format("petastorm")}
    assert written(tmp_path, files)["Dockerfile"] == image.format("mdstorm petastorm")


def test_container_without_code_provides_nothing_for_code(tmp_path: Path) -> None:
    conda = "dependencies:\n- petastorm\n- pip:\n  - torch\n"
    command = "pip install petastorm && python -c 'import petastorm'"
    job = _JOB.replace('["petastorm-throughput.py", "u"]', f'["bash", "-c", "{command}"]')
    files = {"a.py": READS, "b.py": STAYS, "environment.yaml": conda, "k8s/job.yaml": job}
    after = written(tmp_path, files)
    assert after == files | {"k8s/job.yaml": job.replace("petastorm", "mdstorm")}


_IMPORTS = "python -c 'from petastorm import make_reader'"


@each(
    ("ci.sh", f"pip install petastorm\n{_IMPORTS}\n", READS),
    (
        ".github/ci.yml",
        f"jobs:\n  a:\n    run: |\n      pip install petastorm\n      {_IMPORTS}\n",
        READS,
    ),
    ("train.sbatch", "pip install petastorm\npython train.py\n", READS),
    ("setup.sh", "pip install petastorm\n", MOVED),
)
def test_commands_that_install_for_what_they_run_provide_nothing_for_other_code(
    name: str, text: str, made: str, tmp_path: Path
) -> None:
    files = {"environment.yml": "dependencies:\n- petastorm\n", "make.py": READS, "b.py": STAYS}
    after = written(tmp_path, {**files, "train.py": READS, name: text})
    assert after["make.py"] == made


def test_command_in_a_folder_above_keeps_petastorm_in_the_lists_below(tmp_path: Path) -> None:
    listed = 'from setuptools import setup\nsetup(install_requires=["{}"])\n'
    files = {"lib/setup.py": listed.format("petastorm"), "lib/x/__init__.py": READS}
    files |= {"etl/setup.py": listed.format("lib"), "etl/y/__init__.py": READS}
    after = written(tmp_path, {**files, "Makefile": f"bench:\n\t{SCRIPT}\n"})
    assert after["lib/setup.py"] == listed.format('mdstorm", "petastorm')
    assert after["etl/y/__init__.py"] == MOVED


_WORKFLOW = """\
jobs:
  a:
    steps:
    - run: pip install -r requirements.txt
      working-directory: {0}
    - run: {1}
"""


@each(
    (".github/workflows/ci.yml", _WORKFLOW),
    ("Makefile", "x:\n\tcd {0} && pip install -r requirements.txt && {1}\n"),
    ("check.sh", "pip install -r {0}/requirements.txt\n{1}\n"),
)
def test_commands_use_the_library_of_the_list_that_they_install(
    name: str, text: str, tmp_path: Path
) -> None:
    lists = {"a/requirements.txt": "petastorm\n", "b/requirements.txt": "petastorm\n"}
    ignored = "from petastorm.hdfs.namenode import HdfsConnector  # mdstorm: ignore[PM107]\n"
    files = {**lists, "a/app.py": READS, "b/old.py": ignored}
    for folder, command, library in (
        ("a", 'python -c "import petastorm"', "mdstorm"),
        ("b", 'python -c "import petastorm"', "petastorm"),
        ("a", "petastorm-generate-metadata.py --dataset_url u", "mdstorm"),
        ("b", "petastorm-generate-metadata.py --dataset_url u", "petastorm"),
    ):
        after = written(tmp_path, {**files, name: text.format(folder, command)})
        assert after[name] == text.format(folder, command.replace("petastorm", library))
        assert after["b/requirements.txt"] == "petastorm\n"


@each(
    ("run.sh", "# CI/CD a is elsewhere\npip install -r b/requirements.txt\n{}\n"),
    ("run.sh", "# before; cd a first\npip install -r b/requirements.txt\n{}\n"),
    ("run.sh", "black a/\npip install -r b/requirements.txt\n{}\n"),
    ("Makefile", "x:\n\tcd b && pip install -r requirements.txt && {}\n"),
)
def test_list_serves_no_commands_that_only_mention_its_folder(
    name: str, text: str, tmp_path: Path
) -> None:
    files = {"a/t.py": READS, "b/t.py": READS, name: text.format(SCRIPT)}
    after = written(
        tmp_path,
        {**files, "a/requirements.txt": "petastorm\n", "b/requirements.txt": "petastorm\n"},
    )
    assert after["a/requirements.txt"] == "mdstorm\n"
    assert after["b/requirements.txt"] == "mdstorm\npetastorm\n"


def test_names_of_folders_above_the_project_are_not_those_of_its_folders(tmp_path: Path) -> None:
    root = tmp_path / "data" / "project"
    files = {"a/k.py": STAYS, "a/requirements.txt": "petastorm\n", "b/t.py": READS}
    run = "pip install petastorm\nls data/\npython t.py\n"
    assert written(root, {**files, "b/run.sh": run})["b/run.sh"] == run.replace(
        "petastorm", "mdstorm"
    )


def test_code_above_that_nothing_installs_for_is_no_violation_of_a_list_below(
    tmp_path: Path,
) -> None:
    ignored = f"# mdstorm: ignore-file\n{STAYS}"
    write_files(tmp_path, {"k.py": ignored, "a/requirements.txt": "mdstorm\n", "a/t.py": MOVED})
    assert invoke(migrate, "--check", tmp_path).exit_code == 0


def test_message_about_a_script_needs_no_library(tmp_path: Path) -> None:
    said = 'print("it failed: see mdstorm-generate-metadata.py in the docs")\n'
    files = {"x.py": STAYS + said, "requirements.txt": "petastorm\n"}
    assert written(tmp_path, files)["requirements.txt"] == "petastorm\n"


_OF_CLASS = "petastorm-generate-metadata.py --dataset_url u --unischema_class lib.schema.S"


@each(
    ("Makefile", f"x:\n\t{_OF_CLASS}\n"),
    ("gen.sh", _OF_CLASS.replace(" --u", " \\\n  --u") + "\n"),
    ("pod.yaml", "command:\n- " + _OF_CLASS.replace(" ", "\n- ") + "\n"),
    (
        "pod.yaml",
        'command: ["petastorm-generate-metadata.py"]\n'
        'args: ["--dataset_url", "u", "--unischema_class", "lib.schema.S"]\n',
    ),
    ("gen.py", f"run({_OF_CLASS.split()!r})\n"),
    ("gen.py", f"{READS}run('{_OF_CLASS}', shell=True)\n"),
    (
        "gen.py",
        "from petastorm.etl.petastorm_generate_metadata import generate_petastorm_metadata\n"
        "generate_petastorm_metadata(None, 'u', 'lib.schema.S')\n",
    ),
)
def test_command_waits_for_the_class_that_it_imports(name: str, text: str, tmp_path: Path) -> None:
    schema = "from petastorm.unischema import Unischema\nS = Unischema('S', [])\n"
    files = {"a.py": READS, "requirements.txt": "petastorm\n", name: text}
    for stays in (STAYS, ""):
        after = written(tmp_path, {**files, "lib/schema.py": schema + stays})
        assert after["a.py"] == MOVED
        assert after[name] == (text if stays else re.sub(r"\bpetastorm(?=[ .-])", "mdstorm", text))


def test_version_of_a_service_is_no_look_up_of_a_distribution(tmp_path: Path) -> None:
    code = '"""The metadata of models."""\nprint(client.version("petastorm"))\n'
    files = {"report.py": code, "requirements.txt": "petastorm\n"}
    assert written(tmp_path, files) == files


@each(
    "from importlib.metadata import version\nprint(version('{}'))\n",
    "import pkg_resources\nprint(pkg_resources.get_distribution('{}').version)\n",
    "import click\nf = click.version_option(package_name='{}')(main)\n",
)
def test_version_is_looked_up_where_the_library_is_installed(code: str, tmp_path: Path) -> None:
    files = {"cli.py": code.format("petastorm"), "requirements.txt": "petastorm\n"}
    moved = {"cli.py": code.format("mdstorm"), "requirements.txt": "mdstorm\n"}
    assert written(tmp_path, files) == moved
    after = written(tmp_path, {**files, "b.py": STAYS})
    assert after["cli.py"] == code.format("mdstorm")
    assert after["requirements.txt"] == "mdstorm\npetastorm\n"


def test_command_keeps_petastorm_in_a_list_that_it_installs(tmp_path: Path) -> None:
    install = f"install:\n\tpip install -e packages/lib\nbench:\n\t{SCRIPT}\n"
    listed = "[options]\ninstall_requires = {}\n"
    files = {"packages/lib/setup.cfg": listed.format("petastorm"), "ops/make/Makefile": install}
    files |= {"packages/lib/x/__init__.py": READS, "packages/b/requirements.txt": "petastorm\n"}
    after = written(tmp_path, {**files, "packages/b/b.py": READS})
    assert "petastorm" in after["packages/lib/setup.cfg"].split()
    assert after["packages/b/requirements.txt"] == "mdstorm\n"


def test_list_serves_a_job_beside_one_with_own_installation(tmp_path: Path) -> None:
    command = '["sh", "-c", "pip install {} && python -c \'import {}\'"]'
    old = '["petastorm-throughput.py", "u"]'
    files = {"t.py": READS, "requirements.txt": "petastorm\n", "k8s/job.yaml": _JOB}
    files["k8s/count.yaml"] = _JOB.replace(old, command.format("petastorm", "petastorm"))
    after = written(tmp_path, files)
    assert after["requirements.txt"] == "mdstorm\npetastorm\n"
    assert after["t.py"] == MOVED


@each(
    ("run.sh", "{}\npetastorm-generate-metadata.py --dataset_url u\n"),
    (
        ".gitlab-ci.yml",
        "a:\n  script:\n    - {}\n    - petastorm-generate-metadata.py --dataset_url u\n",
    ),
    ("Dockerfile", 'RUN {}\nCMD ["python", "-m", "petastorm.etl.petastorm_generate_metadata"]\n'),
)
def test_command_waits_for_what_installs_for_it(name: str, text: str, tmp_path: Path) -> None:
    address = "pip install git+https://github.com/uber/petastorm.git"
    for install in ("conda install -y petastorm", "pipx install petastorm", address):
        files = {name: text.format(install)}
        assert written(tmp_path, files) == files
        assert "once mdstorm is installed here" in invoke(migrate, tmp_path).stderr


@each(
    (
        "setup.py",
        'setup(install_requires=["petastorm==" + V], extras_require={"tf": ["petastorm"]})\n',
    ),
    (
        "setup.cfg",
        "[options]\ninstall_requires = petastorm @ file:///x\n"
        "[options.extras_require]\ntf = petastorm[tf]\n",
    ),
    (
        "pyproject.toml",
        '[project]\ndependencies = ["petastorm @ git+https://h/p"]\n'
        '[project.optional-dependencies]\ntf = ["petastorm[tf]"]\n',
    ),
)
def test_lists_of_project_that_a_person_must_change_wait_together(
    name: str, text: str, tmp_path: Path
) -> None:
    files = {"a.py": READS, name: text}
    assert written(tmp_path, files) == files


@each("uv tool install petastorm", "pipx install --force petastorm==0.12.1")
def test_scripts_in_environment_of_their_own_are_left(command: str, tmp_path: Path) -> None:
    files = {"a.py": f"import pandas\n{READS}", "justfile": f"{command}\n"}
    assert written(tmp_path, files) == files


@each(
    ("azure.yml", "jobs:\n", "- job: {}\n  steps:\n  - script: pip install {} && python {}\n"),
    (".gitlab-ci.yml", "", "{}:\n  script:\n    - pip install {}\n    - python3 {}\n"),
    (
        "c.yml",
        "services:\n",
        '  {}:\n    build: .\n    command: sh -c "pip install {} && python {}"\n',
    ),
)
def test_job_installs_what_the_file_needs_that_it_runs(
    name: str, head: str, job: str, tmp_path: Path
) -> None:
    jobs = head + job.format("new", "{}", "a.py") + job.format("old", "petastorm", "old/b.py")
    files = {"a.py": f"import c\n{READS}", "c.py": READS, "old/b.py": STAYS}
    after = written(tmp_path, {**files, name: jobs.format("petastorm")})
    assert after[name] == jobs.format("mdstorm")
    for use in ("import importlib\nimportlib.import_module(x)\n", "call(['python', 'old/b.py'])\n"):
        files["c.py"] = READS + use
        after = written(tmp_path, {**files, name: jobs.format("petastorm")})
        assert after[name] == jobs.format("mdstorm petastorm")


_BUNDLE = """\
resources:
  jobs:
    train:
      tasks:
        - spark_python_task:
            python_file: jobs/train.py
          libraries:
            - pypi:
                package: {}
"""


def test_task_of_bundle_installs_what_the_file_needs_that_it_runs(tmp_path: Path) -> None:
    bundle = _BUNDLE.format
    files = {"jobs/train.py": READS, "dags/d.py": f"x(bash_command='{SCRIPT}')\n"}
    files["databricks.yml"] = bundle("petastorm")
    assert written(tmp_path, files)["databricks.yml"] == bundle("mdstorm")


@each(
    ("Makefile", "t:\n\tpip install -r jobs/requirements.txt\n\tpython app/{}.py\n"),
    ("run.sh", "(cd jobs && pip install -r requirements.txt)\npython app/{}.py\n"),
    (".gitlab-ci.yml", "t:\n  script: pip install -r jobs/requirements.txt && python -m app.{}\n"),
    (
        "Dockerfile",
        "COPY jobs/requirements.txt /\nRUN pip install -r requirements.txt\nCOPY app /app\n",
    ),
)
@pytest.mark.parametrize("program", ["run", "imports"])
def test_list_serves_the_programs_of_commands_that_install_it(
    name: str, text: str, program: str, tmp_path: Path
) -> None:
    files = {"app/run.py": STAYS, "app/imports.py": "import run\n", "jobs/a.py": READS}
    files |= {"jobs/requirements.txt": "petastorm\n", name: text.format(program)}
    assert written(tmp_path, files)["jobs/requirements.txt"] == "mdstorm\npetastorm\n"


@each(
    (
        "requirements.txt",
        "petastorm\n",
        "pip install -q -r requirements.txt && python jobs/run.py\n",
    ),
    (
        "setup.cfg",
        "[options]\ninstall_requires = petastorm\n",
        "pip install -e . && python jobs/run.py\n",
    ),
)
def test_list_above_serves_the_program_of_a_folder_with_own_list(
    name: str, text: str, command: str, tmp_path: Path
) -> None:
    files = {"jobs/run.py": STAYS, "a.py": READS, "jobs/requirements.txt": "petastorm\n"}
    after = written(tmp_path, {**files, name: text, "run.sh": command})
    assert {*re.findall(r"\w+storm", after[name])} == {"mdstorm", "petastorm"}


@each(
    "pip install ./lib",
    "pip install -r lib/requirements.txt",
    "pip install -r lib/requirements-dev.txt",
)
def test_list_without_code_serves_the_programs_of_commands_that_install_it(
    command: str, tmp_path: Path
) -> None:
    files = {"run.py": "import pandas\n", "lib/requirements.txt": "petastorm\n", "lib/a.py": READS}
    files["lib/requirements-dev.txt"] = "-r requirements.txt\n"
    if command.endswith("lib"):
        files |= {"lib/setup.cfg": "[options]\ninstall_requires =\n    petastorm\n"}
        del files["lib/requirements.txt"], files["lib/a.py"]
    text = f"{command}\npetastorm-generate-metadata.py --dataset_url u\npython run.py\n"
    after = written(tmp_path, {**files, "run.sh": text})
    assert any("pandas" in text for name, text in after.items() if name.startswith("lib/"))


def test_module_in_a_list_of_words_keeps_petastorm_in_image(tmp_path: Path) -> None:
    words = "".join(f"    - {one}\n" for one in ("python", "-m", "petastorm.benchmark.cli"))
    job = f"spec:\n  containers:\n  - name: a\n    image: acme/a\n    command:\n{words}"
    files = {
        "Dockerfile": "RUN pip install petastorm\nCOPY a.py /\n",
        "a.py": READS,
        "job.yaml": job,
    }
    assert "install mdstorm petastorm\n" in written(tmp_path, files)["Dockerfile"]


def test_list_does_not_serve_the_program_of_another_job(tmp_path: Path) -> None:
    job = "{0}:\n  script: pip install -r {0}/requirements.txt && python {0}/main.py\n"
    files = {"a/main.py": STAYS, "b/main.py": READS}
    files |= {f"{one}/requirements.txt": "petastorm\n" for one in ("a", "b")}
    after = written(tmp_path, {**files, ".gitlab-ci.yml": job.format("a") + job.format("b")})
    found = [after[f"{one}/requirements.txt"] for one in ("a", "b")]
    assert found == ["petastorm\n", "mdstorm\n"]


@each("infra/init.sh", "infra/cluster/init.sh")
def test_script_in_one_file_keeps_petastorm_in_installer_near_it(name: str, tmp_path: Path) -> None:
    files = {"src/t.py": READS, "infra/job.json": f'{{"command": "{SCRIPT}"}}\n'}
    after = written(tmp_path, {**files, name: "pip install petastorm\n"})
    assert after[name] == "pip install mdstorm petastorm\n"


@each(
    ("docker/Dockerfile", "COPY train /app", "mdstorm"),
    ("docker/Dockerfile", "COPY etl /app", "petastorm"),
    ("docker/Dockerfile", "COPY . /app", "mdstorm petastorm"),
    ("Dockerfile", "COPY train/t.py /\nCOPY . /app", "mdstorm petastorm"),
    ("ops/prod/Dockerfile", "COPY train /app\nCOPY etl /app", "mdstorm petastorm"),
    ("Dockerfile", "COPY train etl /app/", "mdstorm petastorm"),
    ("Dockerfile", "COPY --chown=me:me \\\n  train \\\n  /app/", "mdstorm"),
    ("Dockerfile", 'COPY ["train", "/app"]', "mdstorm"),
    ("Dockerfile", "COPY train /app\nCOPY --chown=me --from=b etl /app", "mdstorm"),
)
def test_image_installs_what_the_folders_that_it_copies_need(
    name: str, copies: str, installed: str, tmp_path: Path
) -> None:
    image = f"FROM python:3.11\n{copies}\nRUN pip install {{}}\n"
    files = {"train/t.py": READS, "etl/e.py": STAYS, name: image.format("petastorm")}
    assert written(tmp_path, files)[name] == image.format(installed)


def test_program_in_folder_of_image_does_not_hide_code_above(tmp_path: Path) -> None:
    files = {"src/a.py": READS, "docker/health.py": STAYS}
    files["docker/Dockerfile"] = "RUN pip install petastorm\nCOPY . /app\n"
    after = written(tmp_path, files)["docker/Dockerfile"]
    assert after == "RUN pip install mdstorm petastorm\nCOPY . /app\n"


@each(
    (
        "job.yaml",
        'command: ["python"]\nargs: ["-m", "petastorm.etl.petastorm_generate_metadata"]\n',
    ),
    ("Makefile", "data:\n\tpython -m petastorm.etl.petastorm_generate_metadata u\n"),
)
def test_module_of_command_is_renamed(name: str, text: str, tmp_path: Path) -> None:
    after = written(tmp_path, {"a.py": READS, name: text})[name]
    assert after == text.replace("petastorm.etl", "mdstorm.etl")


def test_message_of_commit_is_no_module_of_command(tmp_path: Path) -> None:
    files = {"a.py": READS, "bump.sh": "git commit -m petastorm.reader\n"}
    assert written(tmp_path, files)["bump.sh"] == files["bump.sh"]


def test_examples_of_petastorms_wheel_keep_requirement(tmp_path: Path) -> None:
    files = {"a.py": "from examples.mnist.schema import X\n", "requirements.txt": "petastorm\n"}
    assert written(tmp_path, files) == files
    assert "a.py needs it" in invoke(migrate, "-v", tmp_path).stderr
    files |= {"b.py": READS, "requirements.txt": "petastorm\n"}
    assert written(tmp_path, files)["requirements.txt"] == "mdstorm\npetastorm\n"
    files |= {"examples/mnist/schema.py": "X = 1\n", "requirements.txt": "petastorm\n"}
    assert written(tmp_path, files)["requirements.txt"] == "mdstorm\n"


@each(
    (
        '[tool.uv]\noverride-dependencies = ["petastorm"]\n',
        "[tool.uv]\noverride-dependencies = []\n",
    ),
    (
        '[tool.uv]\nconstraint-dependencies = ["petastorm"]\n',
        '[tool.uv]\nconstraint-dependencies = ["mdstorm"]\n',
    ),
    (
        '[tool.pdm.resolution.overrides]\npetastorm = ">=0"\n',
        "[tool.pdm.resolution.overrides]\n",
    ),
)
def test_constraint_or_override_gets_no_further_requirement(
    before: str, table: str, tmp_path: Path
) -> None:
    list_ = '[project]\ndependencies = ["petastorm"]\n'
    files = {"a.py": f"import pandas\n{READS}", "pyproject.toml": list_ + before}
    after = written(tmp_path, files)["pyproject.toml"]
    assert after == '[project]\ndependencies = ["pandas", "mdstorm"]\n' + table


@each("git commit", "pytest", "python -m pytest")
def test_option_of_other_program_is_no_module(command: str, tmp_path: Path) -> None:
    words = ", ".join(f'"{word}"' for word in [*command.split(), "-m", "petastorm"])
    files = {"a.py": READS, "noxfile.py": f"session.run({words})\n"}
    assert written(tmp_path, files, "--unsafe")["noxfile.py"] == files["noxfile.py"]


@each('sys.executable, "-W", "ignore"', '"torchrun"', '"python3", "-u"', '"sudo", "/bin/python"')
def test_module_after_interpreter_or_launcher_is_renamed(words: str, tmp_path: Path) -> None:
    text = f'run([{words}, "-m", "petastorm.etl.petastorm_generate_metadata"])\n'
    after = written(tmp_path, {"a.py": text})["a.py"]
    assert after == text.replace('"petastorm.', '"mdstorm.')


def test_mock_and_fixture_that_it_replaces_wait_together(tmp_path: Path) -> None:
    fixture = "@pytest.fixture\ndef opener(): return lambda u: petastorm.make_reader(u)\n"
    conftest = f"import petastorm\nimport pytest\n{fixture}"
    test = (
        "@patch('petastorm.make_reader')\ndef test_open(m, opener): opener('u')\n"
        "@patch('petastorm.reader.Reader')\ndef test_other(m): ...\n"
    )
    files = {"tests/conftest.py": conftest, "tests/test_it.py": test}
    assert written(tmp_path, files) == files


def test_mock_of_library_that_nothing_imports_fails_check(tmp_path: Path) -> None:
    files = {"lib.py": MOVED, "test_lib.py": "import lib\npatch('petastorm.reader.Reader.next')\n"}
    write_files(tmp_path, files)
    assert conditions(tmp_path, "misfit") == ["test_lib.py:2"]


def test_file_of_copy_that_reaches_code_unseen_is_reported_by_its_name(tmp_path: Path) -> None:
    cache = "from petastorm.spark import make_spark_converter\nclass Cache:\n"
    cache += "    def __getitem__(self, k): return self._all[k]\n"
    use = 'def f(cache): return spark.read.parquet(cache["t"].cache_dir_url)\n'
    write_files(tmp_path, {"cache.py": cache, "use.py": use, "log.py": "print(c.cache_dir_url)\n"})
    said = invoke(migrate, "--no-diff", tmp_path).stderr
    assert "use.py:1:" in said
    assert "log.py" not in said


@each(("registry.set('u', c.file_urls)\n", 1), ("print(c.file_urls)\n", 0))
def test_use_of_converted_files_is_reported_alike_by_each_run(
    use: str, code: int, tmp_path: Path
) -> None:
    made = "from petastorm.spark import make_spark_converter\nc = make_spark_converter(df)\n"
    write_files(tmp_path, {"a.py": made + use, "requirements.txt": "petastorm\n"})
    said = invoke(migrate, "-w", tmp_path).stderr
    assert ("`file_urls`" in said) == bool(code)
    for _ in range(2):
        assert invoke(migrate, "--check", tmp_path).exit_code == code


@each({}, {"mid.py": "from base import *\n"})
def test_name_that_star_import_gives_other_file_by_accident_holds_both(
    between: dict[str, str], tmp_path: Path
) -> None:
    above = "mid" if between else "base"
    files = {
        "base.py": "from petastorm.unischema import *\n",
        **between,
        "use.py": f"from {above} import *\nnp.zeros(2)\nUnischema('s', [])\n",
    }
    assert written(tmp_path, files) == files
    assert "`np`" in invoke(migrate, "-v", tmp_path).stderr
    files["use.py"] = f"import numpy as np\n{files['use.py']}"
    assert written(tmp_path, files)["base.py"] == "from mdstorm.unischema import *\n"


@each(
    'SAFE = ("petastorm.", "numpy")\nclass U(Unpickler):\n    def find_class(self, m, n):\n'
    "        return m.startswith(SAFE)\n",
    "class U(Unpickler):\n    def find_class(self, m, n):\n"
    "        return m == 'petastorm.unischema'\n",
)
def test_restricted_unpickler_must_allow_both_libraries(text: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"u.py": text, "w.py": READS})
    assert "`find_class` compares" in invoke(migrate, "-w", "--no-diff", tmp_path).stderr
    assert "also allow" in (tmp_path / "u.py").read_text()
    both = text.replace('"petastorm."', '"petastorm.", "mdstorm."')
    names = ("petastorm.unischema", "mdstorm.unischema")
    both = both.replace("== 'petastorm.unischema'", f"in {names}")
    write_files(tmp_path, {"u.py": both})
    assert "`find_class` compares" not in invoke(migrate, tmp_path).stderr


def test_code_waits_for_restricted_unpickler_and_old_pickles_keep_petastorm(tmp_path: Path) -> None:
    safe = (
        "class U(Unpickler):\n    def find_class(self, m, n):\n        return (m, n) in ALLOWED\n"
    )
    old = "('petastorm.unischema', 'Unischema'), "
    files = {
        "safe.py": f"ALLOWED = {{{old}}}\n{safe}",
        "main.py": f"{READS}from safe import U\n",
        "requirements.txt": "petastorm\n",
    }
    assert written(tmp_path, files) == files
    files["safe.py"] = f"ALLOWED = {{{old}{old.replace('petastorm', 'mdstorm')}}}\n{safe}"
    main = f"{MOVED}from safe import U\n"
    after = written(tmp_path, files)
    assert after == {**files, "main.py": main, "requirements.txt": "mdstorm\npetastorm\n"}


def test_names_that_fill_sys_modules_keep_petastorm_in_each_run(tmp_path: Path) -> None:
    fills = "except ImportError:\n    for n in ('petastorm', 'a'): sys.modules[n] = Mock()\n"
    files = {"conftest.py": f"try: import petastorm\n{fills}", "requirements.txt": "petastorm\n"}
    after = written(tmp_path, files, "--unsafe")
    assert after["conftest.py"] == f"try: import mdstorm\n{fills}"
    assert after["requirements.txt"] == "mdstorm\npetastorm\n"


def test_prefix_of_module_is_renamed_with_its_root(tmp_path: Path) -> None:
    text = (
        "def ours(o):\n    root = type(o).__module__.partition('.')[0]\n"
        "    return type(o).__module__.startswith('petastorm.') or o.__module__ == 'petastorm'\n"
    )
    after = written(tmp_path, {"a.py": f"{READS}{text}"})["a.py"]
    assert after == f"{READS}{text}".replace("petastorm", "mdstorm")


@each(
    ("flags.yaml", "flag: petastorm.new_reader\n"),
    ("panel.json", '{"metric": "petastorm.reader"}\n'),
    ("job.yml", "task_key: petastorm.pytorch\nlibraries:\n- pypi: {package: petastorm}\n"),
)
def test_configured_module_or_unknown_name_is_only_mentioned(
    name: str, text: str, tmp_path: Path
) -> None:
    after = written(tmp_path, {"a.py": READS, name: text})[name]
    assert after == text.replace("package: petastorm", "package: mdstorm")
    assert "PM103" not in invoke(migrate, "-v", tmp_path).stderr


@each(
    ("loader.ini", "[loader]\nmodule = petastorm.pytorch\n"),
    ("conf/loader.yaml", "loader:\n  module: petastorm.pytorch\n  name: DataLoader\n"),
)
def test_configured_module_that_code_may_import_keeps_petastorm(
    name: str, text: str, tmp_path: Path
) -> None:
    files = {"a.py": READS, name: text, "requirements.txt": "petastorm\n"}
    after = written(tmp_path, files)
    assert (after[name], after["requirements.txt"]) == (text, "mdstorm[torch]\npetastorm\n")
    assert "PM103 manual" in invoke(migrate, "--check", tmp_path).stderr


@each(
    ("requirements.txt", "mdstorm\npyarrow<13\n", "pin"),
    ("Dockerfile", "FROM python:3.9\nRUN pip install mdstorm\n", "python"),
    (".python-version", "3.9.1\n", "python"),
    ("runtime.txt", "python-3.9.1\n", "python"),
)
def test_check_fails_after_migration_while_environment_does_not_fit(
    name: str, text: str, subject: str, tmp_path: Path
) -> None:
    write_files(tmp_path, {"a.py": MOVED, name: text})
    assert [one.split(":")[0] for one in conditions(tmp_path, subject)] == [name]
    assert invoke(migrate, "--check", tmp_path).exit_code == 1


@each(
    ({}, "py_version='py38'", ["launch.py:1"]),
    ({}, "py_version='py310'", []),
    ({}, "py_version='py38', image='pandas==1.0', base_job_name='petastorm'", ["launch.py:1"]),
    ({"src/a.py": STAYS, "src/requirements.txt": "petastorm\n"}, "py_version='py38'", []),
)
def test_python_of_job_that_code_launches_must_fit(
    files: dict[str, str], use: str, misfits: list[str], tmp_path: Path
) -> None:
    moved = {"src/a.py": MOVED, "src/requirements.txt": "mdstorm\n"}
    write_files(tmp_path, {**moved, **files, "launch.py": f"PyTorch(source_dir='src', {use})\n"})
    assert conditions(tmp_path, "python", "pin", "misfit") == misfits


@each(
    ({"a.py": STAYS, "requirements.txt": "mdstorm\n"}, ["requirements.txt:1"]),
    ({"a.py": MOVED, "requirements.txt": "x\npetastorm\n"}, ["requirements.txt:2"]),
    ({"a.py": MOVED, "requirements.txt": "mdstorm\n"}, []),
    ({"a.py": MOVED, "b.py": STAYS, "requirements.txt": "mdstorm\npetastorm\n"}, []),
    ({"a.py": MOVED, "constraints.txt": "petastorm==0.12\n", "requirements.txt": "mdstorm\n"}, []),
    ({"a/a.py": MOVED, "a/setup.cfg": "[options]\ninstall_requires = mdstorm\n", "b/b.py": STAYS,
      "b/requirements.txt": "petastorm\n"}, []),
)  # fmt: skip
def test_check_fails_if_installer_lacks_what_code_imports(
    files: dict[str, str], misfits: list[str], tmp_path: Path
) -> None:
    write_files(tmp_path, files)
    report = tmp_path / "report.json"
    invoke(migrate, "--check", "--ignore", "PM4", "--report", report, tmp_path)
    found = json.loads(report.read_text())["conditions"]
    shown = [f"{one['path']}:{one['line']}" for one in found if one["subject"] == "misfit"]
    assert [one.replace(f"{tmp_path}/", "") for one in shown] == misfits


_FORK = "petastorm @ git+https://host/petastorm.git\n"
_TASK = '[tasks]\nm = "python -m petastorm.etl.dataset_metadata"\n'


@each(
    ("requirements.txt", _FORK, "Petastorm comes from a repository", False),
    ("requirements.txt", _FORK, "Petastorm comes from a repository", True),
    ("pixi.toml", f'[dependencies]\npetastorm = "*"\n{_TASK}', "no conda package", False),
)
def test_code_waits_if_its_only_installer_cannot_provide_mdstorm(
    name: str, text: str, reason: str, unsafe: bool, tmp_path: Path
) -> None:
    files = {"a.py": READS, name: text}
    after = written(tmp_path, files, *(["--unsafe"] if unsafe else []))
    assert after == {**files, "a.py": MOVED if unsafe else READS}
    assert reason in invoke(migrate, tmp_path).stderr


@each(
    {"lib/requirements.txt": "petastorm @ git+https://host/petastorm.git\n"},
    {"lib/pyproject.toml": '[project]\ndependencies = ["petastorm@git+https://host/petastorm"]\n'},
)
def test_list_in_folder_above_provides_nothing_for_folder_with_own_list(
    files: dict[str, str], tmp_path: Path
) -> None:
    files |= {"lib/b.py": READS, "a.py": READS, "requirements.txt": "petastorm\n"}
    after = written(tmp_path, files)
    assert after == {**files, "a.py": MOVED, "requirements.txt": "mdstorm\n"}


@each("petastorm @ https://h/petastorm-0.12-py3-none-any.whl", "petastorm @ git+https://h/p.git")
def test_address_of_copy_is_one_place(line: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"a.py": READS, "requirements.txt": f"{line}\n"})
    for _ in range(2):
        said = invoke(migrate, "-w", "--no-diff", tmp_path).stderr
        assert said.count("Petastorm comes from a repository, a file or a changed copy") == 1
        assert "more place" not in said


def test_places_after_writing_are_those_in_the_new_files(tmp_path: Path) -> None:
    stays = "from petastorm.hdfs import x\n"
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": [stays, stays.strip()]}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    files = {"a.py": f"import sys\n{READS}{stays}", "b.ipynb": json.dumps(notebook, indent=1)}
    files |= {
        "bom.py": f"\ufeffx = 1\n{stays}",
        "req.txt": "petastorm==0.12\npetastorm @ git+ssh://h/p\n",
    }
    write_files(tmp_path, files)
    report = tmp_path / "report.json"
    found = []
    for _ in range(2):
        invoke(migrate, "-w", "-q", "--no-diff", "--report", report, tmp_path)
        read = json.loads(report.read_text())["files"]
        found.append(
            [
                (one["path"], item["line"], item["column"])
                for one in read
                for item in one["findings"]
            ]
        )
    assert found[0] == found[1]
    assert len(found[0]) > 4


def test_code_moves_if_one_of_its_installers_provides_mdstorm(tmp_path: Path) -> None:
    fork = "petastorm @ git+https://host/petastorm.git\n"
    files = {"a.py": READS, "requirements.txt": "petastorm\n", "requirements-fork.txt": fork}
    assert written(tmp_path, files) == {
        "a.py": MOVED,
        "requirements.txt": "mdstorm\n",
        "requirements-fork.txt": fork,
    }


@each(
    ("requirements.txt", "petastorm[tf]==0.12.1  # reads\n"),
    ("requirements/dev.in", "petastorm @ git+https://host/petastorm.git\n"),
    ("constraints.txt", "petastorm<1\n"),
    ("setup.cfg", "[options]\ninstall_requires =\n    petastorm\n"),
    ("setup.cfg", "[options]\ninstall_requires = numpy; petastorm>=0.9\n"),
    ("setup.py", 'setup(install_requires=["petastorm"], extras_require={"x": ["petastorm"]})\n'),
    ("pyproject.toml", '[project]\ndependencies = ["petastorm"]\n'),
    ("pyproject.toml", '[dependency-groups]\ndev = ["petastorm>=0.9"]\n'),
    ("pyproject.toml", '[tool.poetry.dependencies]\npetastorm = {version = "*", extras = ["x"]}\n'),
    ("pyproject.toml", '[tool.pixi.pypi-dependencies]\npetastorm = "*"\n'),
    ("pyproject.toml", '[tool.pixi.dependencies]\npetastorm = "*"\n'),
    ("pixi.toml", '[feature.x.target.linux-64.host-dependencies]\npetastorm = "*"\n'),
    ("Pipfile", '[packages]\npetastorm = "*"\n'),
    ("environment.yml", "dependencies:\n- petastorm=0.12\n- pip:\n  - petastorm==0.12\n"),
    ("tox.ini", "[testenv]\ndeps =\n    a: petastorm\n    !a: petastorm<1\n"),
    ("noxfile.py", 'session.install("petastorm")\nsession.conda_install("petastorm")\n'),
    ("Dockerfile", "RUN pip install petastorm==0.12 && conda install petastorm\n"),
    ("install.sh", "uv pip install petastorm\nmamba install -y petastorm\n"),
    ("install.sh", """echo " # 1" ' # 2'; pip install petastorm\n"""),
    (".github/workflows/ci.yml", "- run: pip install petastorm\n"),
    ("job.yml", "libraries:\n- pypi: {package: petastorm==0.12.1}\n"),
    ("cluster.json", '{"libraries": [{"pypi": {"package": "petastorm"}}]}\n'),
    ("nb.py", "# Databricks notebook source\n# MAGIC %pip install petastorm\n"),
)
def test_each_requirement_of_petastorm_is_replaced_or_needs_a_person(
    name: str, text: str, tmp_path: Path
) -> None:
    write_files(tmp_path, {"a.py": READS, name: text})
    report = tmp_path.parent / f"{tmp_path.name}.json"
    invoke(migrate, "-w", "-q", "--no-diff", "--no-todo", "--report", report, tmp_path)
    lines = (tmp_path / name).read_text().splitlines()
    left = {number for number, line in enumerate(lines, 1) if "petastorm" in line}
    files = {one["path"]: one["findings"] for one in json.loads(report.read_text())["files"]}
    found = [one for one in files[str(tmp_path / name)] if one["class"] == "manual"]
    assert left <= {one["line"] for one in found}
    assert left or not found


@each(
    "subprocess.run('petastorm-copy-dataset.py a b', shell=True)\n",
    "subprocess.run(['petastorm-copy-dataset.py', 'a', 'b'])\n",
    "os.system(f'petastorm-throughput.py {url}')\n",
    "os.system('python -m petastorm.tools.copy_dataset a b')\n",
    "def bench(session): session.run('petastorm-throughput.py', 'u')\n",
    "subprocess.run(['/opt/venv/bin/petastorm-copy-dataset.py', 'a', 'b'])\n",
    "subprocess.run(['/opt/tools/petastorm-generate-metadata.py', '--dataset_url', 'u'])\n",
    "os.system('python -m petastorm.etl.petastorm_generate_metadata ' '--dataset_url u')\n",
    "os.system(f'python -m petastorm.etl.petastorm_generate_metadata --dataset_url {u}')\n",
)
def test_command_in_code_keeps_petastorm_while_code_moves(use: str, tmp_path: Path) -> None:
    files = {"a.py": READS + use, "requirements.txt": "petastorm\n"}
    after = written(tmp_path, files)
    assert after == {"a.py": MOVED + use, "requirements.txt": "mdstorm\npetastorm\n"}
    assert "a.py:2:" in (said := invoke(migrate, tmp_path).stderr)
    assert "PM403 manual" in said


@each(
    "BashOperator(bash_command='petastorm-generate-metadata.py --dataset_url u')\n",
    "subprocess.run(['/opt/venv/bin/petastorm-generate-metadata.py', '--dataset_url', 'u'])\n",
)
def test_script_that_code_runs_is_one_of_mdstorm(use: str, tmp_path: Path) -> None:
    for others in ({"a.py": READS}, {"a.py": "import os\n"}):
        files = {**others, "b.py": use, "requirements.txt": "petastorm\n"}
        after = written(tmp_path, files)
        assert after == {one: text.replace("petastorm", "mdstorm") for one, text in files.items()}


@each(
    "BashOperator(bash_command='pip install {} && petastorm-throughput.py x')\n",
    "BashOperator(bash_command='v/bin/pip install {} && v/bin/petastorm-throughput.py x')\n",
    "os.system('python -m venv v && v/bin/pip install {} && v/bin/petastorm-throughput.py x')\n",
)
def test_command_in_code_with_own_installation_keeps_petastorm_only_there(
    use: str, tmp_path: Path
) -> None:
    other = "PythonVirtualenvOperator(requirements=['petastorm'])\n"
    moved = other.replace("petastorm", "mdstorm")
    files = {"a.py": f"{READS}{use.format('petastorm')}{other}", "requirements.txt": "petastorm\n"}
    after = written(tmp_path, files)
    assert after["a.py"] == f"{MOVED}{use.format('petastorm')}{moved}"
    assert after["requirements.txt"] == "mdstorm\n"
    assert "PM403 manual" in invoke(migrate, tmp_path).stderr
    use = use.replace(" x')", " x && python b.py')")
    files = {"a.py": f"{READS}{use.format('petastorm')}{other}", "b.py": READS}
    after = written(tmp_path, files)
    assert after["a.py"] == f"{MOVED}{use.format('mdstorm petastorm')}{moved}"


@each(
    "print('To copy, run petastorm-copy-dataset.py')\n",
    "log('First run python -m petastorm.tools.copy_dataset')\n",
    '"""petastorm-copy-dataset.py makes the data."""\n',
    "log('To copy, run v/bin/petastorm-copy-dataset.py')\n",
)
def test_text_about_command_keeps_no_requirement(use: str, tmp_path: Path) -> None:
    files = {"a.py": READS + use, "requirements.txt": "petastorm\n"}
    assert written(tmp_path, files)["requirements.txt"] == "mdstorm\n"


@each(
    ("docker-compose.yml", "build: .", "Dockerfile"),
    ("compose/docker-compose.yml", "build: {context: ../src}", "src/Dockerfile"),
    ("compose.yaml", "build:\n      context: .\n      dockerfile: x", "docker/Dockerfile"),
)
def test_image_installs_what_the_commands_need_that_compose_runs_in_it(
    name: str, build: str, image: str, tmp_path: Path
) -> None:
    compose = f"services:\n  b:\n    {build}\n    command: petastorm-throughput.py u\n"
    text = "FROM python:3.11\nRUN pip install {}\nCOPY a.py .\n"
    at = image.replace("docker/Dockerfile", "Dockerfile").replace("Dockerfile", "a.py")
    after = written(tmp_path, {at: READS, name: compose, image: text.format("petastorm")})
    assert after[image] == text.format("mdstorm petastorm")


@each(
    ("run.sh", "v/bin/pip install {}\nv/bin/petastorm-throughput.py u\n"),
    ("run.sh", '"$VENV"/bin/pip install {}\n"$VENV"/bin/petastorm-throughput.py u\n'),
    ("run.sh", "pip install {}\nif ./.venv/bin/petastorm-copy-dataset.py a b; then x; fi\n"),
    (
        "Dockerfile",
        'RUN pip install {}\nCOPY a.py .\nCMD ["/usr/local/bin/petastorm-copy-dataset.py"]\n',
    ),
)
def test_script_called_by_path_keeps_petastorm(name: str, text: str, tmp_path: Path) -> None:
    after = written(tmp_path, {"a.py": READS, name: text.format("petastorm")})
    assert after[name] == text.format("mdstorm petastorm")
    assert "is a script of Petastorm" in invoke(migrate, tmp_path).stderr


def test_module_that_code_runs_waits_for_its_installer(tmp_path: Path) -> None:
    files = {
        "setup.py": "P = 'petastorm>=0.12'\nsetup(install_requires=[P])\n",
        "a.py": READS,
        "regen.py": "run([sys.executable, '-m', 'petastorm.etl.petastorm_generate_metadata'])\n",
        "b.py": "from petastorm.tools.copy_dataset import copy_dataset\n",
    }
    assert written(tmp_path, files) == files
    assert "PM103 review" in invoke(migrate, tmp_path).stderr


def test_dataset_of_command_beside_installation_is_no_requirement(
    tmp_path: Path,
) -> None:
    run = "pip install 'mdstorm[torch]' && python3 -m x --dataset_url file:///data/petastorm"
    write_files(tmp_path, {"a.py": f'{MOVED}x(bash_command="{run}")\n'})
    assert "PM403" not in invoke(migrate, tmp_path).stderr


@each(
    ("requirements.txt", "{}\n"),
    ("Dockerfile", "FROM python:3.11\nRUN pip install {}\nCOPY s.py .\n"),
)
def test_module_that_code_runs_is_installed(name: str, text: str, tmp_path: Path) -> None:
    code = 'run([sys.executable, "-m", "petastorm.etl.petastorm_generate_metadata", "u"])\n'
    after = written(tmp_path, {"s.py": code, name: text.format("petastorm")})
    assert after["s.py"] == code.replace('"petastorm.', '"mdstorm.')
    assert after[name] == text.format("mdstorm")


@each("import_module(_OF[name])", "import_module(_OF.get(name))")
def test_library_in_table_of_modules_to_import_needs_review(use: str, tmp_path: Path) -> None:
    code = f"from importlib import import_module\n_OF = {{'make_reader': 'petastorm'}}\n{use}\n"
    after = written(tmp_path, {"a.py": READS, "lazy.py": code, "requirements.txt": "petastorm\n"})
    assert after["requirements.txt"] == "mdstorm\npetastorm\n"
    assert "lazy.py:2:" in invoke(migrate, "--check", tmp_path).stderr


@each("import_module(_OF[name])", "get_class(_OF[name])")
def test_module_of_mdstorm_in_table_to_import_is_installed(use: str, tmp_path: Path) -> None:
    table = "_OF = {'make_reader': 'petastorm', 'DataLoader': 'mdstorm.pytorch'}\n"
    files = {"lazy.py": f"import importlib\n{table}{use}\n", "requirements.txt": "petastorm\n"}
    assert written(tmp_path, files)["requirements.txt"] == "mdstorm[torch]\npetastorm\n"


@each("get_method('petastorm.make_reader')", "get_class('petastorm.pytorch.DataLoader')")
def test_name_that_hydra_looks_up_is_renamed(use: str, tmp_path: Path) -> None:
    code = f"from hydra.utils import get_class, get_method\n{use}\n"
    after = written(tmp_path, {"a.py": code, "requirements.txt": "petastorm\n"})
    assert after["a.py"] == code.replace("petastorm", "mdstorm")
    assert after["requirements.txt"].startswith("mdstorm")


@each("etl/run.sh", "Jenkinsfile")
def test_command_that_mdstorm_has_is_rewritten_while_other_use_keeps_petastorm(
    name: str, tmp_path: Path
) -> None:
    files = {"a.py": READS, "b.py": STAYS, "requirements.txt": "petastorm\n"}
    files[name] = "petastorm-generate-metadata.py --dataset_url u\n"
    after = written(tmp_path, files)
    assert after["requirements.txt"] == "mdstorm\npetastorm\n"
    assert after[name] == "mdstorm-generate-metadata.py --dataset_url u\n"


def test_code_in_command_moves_where_mdstorm_is_installed_beside_petastorm(tmp_path: Path) -> None:
    run = "conda run -n env python -c 'import {}'\n"
    files = {"b.py": STAYS, "run.sh": run.format("petastorm"), "requirements.txt": "petastorm\n"}
    assert written(tmp_path, files)["run.sh"] == files["run.sh"]
    after = written(tmp_path, {**files, "a.py": READS})
    assert (after["run.sh"], after["requirements.txt"]) == (
        run.format("mdstorm"),
        "mdstorm\npetastorm\n",
    )


def test_code_in_command_moves_where_other_command_of_its_file_installs_petastorm(
    tmp_path: Path,
) -> None:
    make = f"check:\n\t$(PY) -c 'import {{}}'\nbench:\n\tpip install {{}}\n\t{SCRIPT}\n"
    conda = "dependencies:\n- pip:\n  - {}\n"
    files = {"Makefile": make.format("petastorm", "petastorm"), "a.py": READS}
    after = written(tmp_path, {**files, "environment.yml": conda.format("petastorm")})
    assert after["environment.yml"] == conda.format("mdstorm")
    assert after["Makefile"] == make.format("mdstorm", "mdstorm petastorm")


def test_code_that_guards_an_installation_of_both_libraries_is_left(tmp_path: Path) -> None:
    make = "a:\n\tpython -c 'import {}' || pip install {}\nbench:\n\t{}\n"
    files = {"a.py": READS, "Makefile": make.format("petastorm", "petastorm", SCRIPT)}
    after = written(tmp_path, files)
    assert after["Makefile"] == make.format("petastorm", "mdstorm petastorm", SCRIPT)
    files["Makefile"] = make.format("petastorm", "petastorm", "x")
    assert written(tmp_path, files)["Makefile"] == make.format("mdstorm", "mdstorm", "x")


def test_guard_of_installation_needs_review_while_it_installs_both_libraries(
    tmp_path: Path,
) -> None:
    make = f"check:\n\tpip show {{}} || pip install {{}}\nbench:\n\t{SCRIPT}\n"
    files = {"a.py": READS, "Makefile": make.format("petastorm", "petastorm==0.12")}
    after = written(tmp_path, files)
    assert after["Makefile"] == make.format("petastorm", "mdstorm petastorm==0.12")
    assert "also look for mdstorm" in invoke(migrate, tmp_path).stderr
    both = make.format("petastorm && pip show mdstorm", "mdstorm petastorm")
    assert written(tmp_path, {"Makefile": both}) == {"Makefile": both}
    assert "look for mdstorm" not in invoke(migrate, tmp_path).stderr


def test_command_that_mdstorm_has_needs_review_where_only_petastorm_is(tmp_path: Path) -> None:
    files = {
        "bench.sh": f"{SCRIPT}\n",
        "run.sh": "pip install petastorm\npetastorm-generate-metadata.py --dataset_url u\n",
    }
    assert written(tmp_path, files) == files
    said = invoke(migrate, "--check", tmp_path).stderr
    assert "run.sh:2:" in said
    assert "use `mdstorm-generate-metadata.py`" in said


@each(
    ("runtime_env={'pip': ['{}']}\n", "images,spark"),
    ("session.install('{}')\n", "images,spark"),
    ("subprocess.run(['pip', 'install', '{}'])\n", "images"),  # where the code itself runs
)
def test_list_in_code_has_extras_of_code_that_it_imports(
    use: str, extras: str, tmp_path: Path
) -> None:
    schema = "import pyspark\nfrom petastorm.codecs import CompressedImageCodec\n"
    code = f"{READS}from schema import S\n{use.replace('{}', 'petastorm')}"
    after = written(tmp_path, {"a.py": code, "schema.py": schema})["a.py"]
    assert use.replace("{}", f"mdstorm[{extras}]") in after


@each(
    "submit_job(entrypoint='python jobs/tune.py', runtime_env={'pip': ['{}']})\n",
    "ENV = {'pip': ['{}']}\nrun('python -m jobs.tune', ENV)\n",
    "CustomTrainingJob(script_path='jobs/tune.py', requirements=['{}'])\n",
)
def test_list_in_code_has_what_the_files_need_that_it_names(use: str, tmp_path: Path) -> None:
    files = {"a.py": READS + use.replace("{}", "petastorm")}
    files["jobs/tune.py"] = f"{READS}table.to_pandas()\n"
    after = written(tmp_path, files)["a.py"]
    assert after == MOVED + use.replace("'{}'", "'pandas', 'mdstorm'")


_PEP621 = '[project]\ndependencies = ["{}"]\n'


@each(
    ("requirements.txt", "{}\n", {"Dockerfile": "RUN pip install pyspark\n"}),
    ("requirements.txt", "{}\n", {"dev.txt": "-r requirements.txt\npyspark\npandas\n"}),
    ("requirements.txt", "{}\n", {"notebooks/requirements.txt": "pyspark\n"}),
    ("pyproject.toml", _PEP621 + '[project.optional-dependencies]\nx = ["pyspark"]\n', {}),
    ("pyproject.toml", _PEP621 + '[dependency-groups]\nx = ["pyspark", "pandas"]\n', {}),
    ("pyproject.toml", _PEP621 + '[tool.hatch.envs.x]\ndependencies = ["pyspark", "pandas"]\n', {}),
    ("setup.cfg", "[options]\ninstall_requires =\n  {}\n[options.extras_require]\nx=pyspark\n", {}),
    ("setup.py", "setup(install_requires=['{}'], extras_require={{'x': ['pyspark']}})\n", {}),
    ("setup.py", "setup(install_requires=['{}'], tests_require='pyspark\\npandas')\n", {}),
    (
        "setup.py",
        "x = {{}}\nx['a'] = ['pyspark']\nsetup(install_requires=['{}'], extras_require=x)\n",
        {},
    ),
    (
        "ci.yml",
        "jobs:\n  a:\n    - run: pip install . {}\n  b:\n    - run: pip install pyspark\n",
        {},
    ),
)
def test_list_names_what_petastorm_brought_unless_it_installs_this_itself(
    name: str, text: str, others: dict[str, str], tmp_path: Path
) -> None:
    files = {"a.py": f"import pandas\nfrom pyspark.sql.types import LongType\n{READS}", **others}
    after = written(tmp_path, {**files, name: text.format("petastorm")})
    spark = "'mdstorm[spark]'" if name == "ci.yml" else "mdstorm[spark]"
    assert after[name].replace('"', "'") == text.format(spark).replace('"', "'")
    for inner in ("dev.txt", "notebooks/requirements.txt"):
        assert after.get(inner) == others.get(inner)


def test_list_with_pyspark_in_list_that_it_includes_needs_no_extra(tmp_path: Path) -> None:
    files = {
        "a.py": f"import pandas, pyspark\n{READS}",
        "base-requirements.in": "pyspark\npandas\n",
    }
    after = written(tmp_path, {**files, "requirements.txt": "-r base-requirements.in\npetastorm\n"})
    assert after["requirements.txt"] == "-r base-requirements.in\nmdstorm\n"


@each(
    "setup(install_requires=['{}', 'pyspark>=3'])\n",
    "R = ['{}']\nR += ['pyspark']\nsetup(install_requires=R, tests_require=['pytest'])\n",
    "def listed():\n    return ['{}', 'pyspark']\nsetup(install_requires=listed())\n",
    "setup(install_requires=['torch'], extras_require={{'x': ['{}', 'pyspark'], 'y': ['a']}})\n",
)
def test_setup_script_with_pyspark_beside_petastorm_needs_no_extra(
    text: str, tmp_path: Path
) -> None:
    files = {"a.py": f"import pyspark\n{READS}", "setup.py": text.format("petastorm")}
    assert written(tmp_path, files)["setup.py"] == text.format("mdstorm")


def test_session_of_nox_keeps_petastorm_only_there(tmp_path: Path) -> None:
    run = 'def {}(session):\n    session.install("{}", "x")\n    session.run("{}")\n'
    bench = run.format("bench", "petastorm", "petastorm-throughput.py")
    nox = f"import nox\n{bench}{run}".format
    files = {"a.py": READS, "noxfile.py": nox("tests", "petastorm", "pytest")}
    files |= {"requirements.txt": "petastorm\n"}
    after = written(tmp_path, files)
    assert after["noxfile.py"] == nox("tests", "mdstorm", "pytest")
    assert after["requirements.txt"] == "mdstorm\n"
    with_tests = bench.replace("bench", "both").replace('"x"', '"pytest"')
    write_files(tmp_path, {"a.py": READS, "noxfile.py": f"import nox\n{with_tests}"})
    assert "the code also needs `mdstorm`" in invoke(migrate, tmp_path).stderr


def test_session_of_nox_with_own_module_and_python_concerns_no_other_session(
    tmp_path: Path,
) -> None:
    nox = (
        'import nox\n@nox.session(python="3.8")\ndef bench(session):\n'
        '    session.install("petastorm", "numpy<1.20")\n'
        '    session.run("python", "-m", "petastorm.benchmark.cli", "u")\n'
        '@nox.session\ndef tests(session):\n    session.install("{}")\n    session.run("pytest")\n'
    )
    after = written(tmp_path, {"a.py": READS, "noxfile.py": nox.format("petastorm")})
    assert after == {"a.py": MOVED, "noxfile.py": nox.format("mdstorm")}
    assert conditions(tmp_path, "misfit", "python", "pin") == []


_TYPES = "    from pyspark.sql.types import LongType\n"


@each(
    "def f():\n    {}{}PythonVirtualenvOperator(python_callable=f, requirements=['{}'])\n",
    "@task.virtualenv(requirements=['{2}'])\ndef f():\n    {0}{1}",
    "@dsl.component(packages_to_install=['{2}'])\ndef f():\n    {0}{1}",
    "def f():\n    {}{}create_component_from_func(f, packages_to_install=['{}'])\n",
)
def test_environment_of_function_has_what_the_function_imports(use: str, tmp_path: Path) -> None:
    files = {"a.py": use.format(READS, _TYPES, "petastorm"), "b.py": f"import pandas\n{STAYS}"}
    after = written(tmp_path, files)["a.py"]
    assert after == use.format(MOVED, _TYPES, "mdstorm[spark]")
    files["a.py"] = "import pyspark\n" + use.format(READS, "", "petastorm")
    assert written(tmp_path, files)["a.py"].endswith(use.format(MOVED, "", "mdstorm"))


def test_image_that_copies_nothing_installs_what_it_runs(tmp_path: Path) -> None:
    image = 'FROM python:3.11\nRUN pip install petastorm\nENTRYPOINT ["petastorm-throughput.py"]\n'
    files = {"train/a.py": READS, "bench/Dockerfile": image}
    assert written(tmp_path, files)["bench/Dockerfile"] == image


@each(
    ("ValueError as e: return 'petastorm' in str(e)", False),
    ("KeyError as e: return e.args[0] == 'petastorm'", False),
    ("Exception as e: return 'petastorm' in str(e)", False),
    ("ImportError as e: return 'petastorm' in str(e)", True),
    ("(OSError, ModuleNotFoundError) as e: return e.name == 'petastorm'", True),
)
def test_only_caught_import_errors_name_library(
    handler: str, is_renamed: bool, tmp_path: Path
) -> None:
    code = f"def f(u):\n    try: load(u)\n    except {handler}\n"
    after = written(tmp_path, {"a.py": READS + code})["a.py"]
    assert after == MOVED + (code.replace("petastorm", "mdstorm") if is_renamed else code)


def test_name_of_import_error_waits_while_other_code_stays(tmp_path: Path) -> None:
    main = (
        "import runpy\ntry: runpy.run_path('cp.py')\n"
        "except ModuleNotFoundError as e:\n    if e.name != 'petastorm': raise\n"
    )
    files = {"cp.py": STAYS, "main.py": main, "other.py": READS}
    assert written(tmp_path, files) == {**files, "other.py": MOVED}
    own = main.replace("runpy.run_path('cp.py')", READS.strip())
    files |= {"main.py": own, "other.py": READS}
    assert written(tmp_path, files)["main.py"] == own.replace("petastorm", "mdstorm")


@each(
    "logging.getLogger('petastorm.spark.spark_dataset_converter')\n",
    "dictConfig({'loggers': {'petastorm.spark.spark_dataset_converter': {}}})\n",
    "logging.getLogger('petastorm.pytorch').disabled = True\n",
    'def f(row):\n    """A CompressedImageCodec for a\n\n    make_torch_dataloader().\n    """\n',
)
def test_name_of_logger_or_in_docstring_needs_no_extra(use: str, tmp_path: Path) -> None:
    files = {"a.py": READS + use, "requirements.txt": "petastorm\n"}
    assert written(tmp_path, files)["requirements.txt"] == "mdstorm\n"


@each("- >\n      ", "- >-\n      ", "- run: >\n        ")
def test_command_in_folded_scalar_is_one_line(begin: str, tmp_path: Path) -> None:
    indent = begin.rpartition("\n")[2]
    text = f"t:\n  script:\n    {begin}pip install\n{indent}{{}}\n{indent}pytest\n    - x\n"
    after = written(tmp_path, {"a.py": READS, "ci.yml": text.format("petastorm")})
    assert after["ci.yml"] == text.format("mdstorm")


@each(
    "    mod = type(o).__module__\n    return mod.startswith('petastorm.')\n",
    "    mod = type(o).__module__\n    return mod == 'petastorm.reader'\n",
    "    return inspect.getmodule(o).__name__ == 'petastorm.reader'\n",
    "    return any(m.startswith('petastorm') for m in sys.modules)\n",
    "    return [m for m in list(sys.modules) if m.startswith('petastorm.')]\n",
)
def test_name_of_module_is_renamed_through_variable(body: str, tmp_path: Path) -> None:
    text = f"{READS}def f(o):\n{body}"
    assert written(tmp_path, {"a.py": text})["a.py"] == text.replace("petastorm", "mdstorm")


def test_command_of_mlflow_project_is_migrated(tmp_path: Path) -> None:
    project = 'entry_points:\n  main:\n    command: "{} u"\n'
    files = {"a.py": READS, "conda.yaml": "dependencies:\n- pip:\n  - petastorm\n"}
    files["MLproject"] = project.format("python -m petastorm.etl.petastorm_generate_metadata")
    after = written(tmp_path, files)
    assert after["MLproject"] == files["MLproject"].replace("petastorm.etl", "mdstorm.etl")
    files |= {"MLproject": project.format("petastorm-throughput.py")}
    assert written(tmp_path, files)["conda.yaml"] == files["conda.yaml"].replace(
        "petastorm", "mdstorm\n  - petastorm"
    )


def test_mock_of_modules_by_call_moves_with_code(tmp_path: Path) -> None:
    text = f"{READS}def test(m): m.setitem(__import__('sys').modules, 'petastorm', None)\n"
    assert written(tmp_path, {"t.py": text})["t.py"] == text.replace("petastorm", "mdstorm")


@each(
    ("Dockerfile", 'FROM x\nARG DEPS="petastorm==0.12.1 pandas"\nRUN pip install $DEPS\n', 2),
    ("Dockerfile", "FROM x\nCOPY <<REQ /r.txt\npetastorm==0.12.1\nREQ\n", 3),
    ("a.sh", 'echo "petastorm>=0.11" >> requirements.txt\n', 1),
    ("values.yaml", 'extraPip: "petastorm==0.12.1 s3fs"\n', 1),
)
def test_versioned_requirement_in_any_other_place_needs_review(
    name: str, text: str, line: int, tmp_path: Path
) -> None:
    files = {"a.py": READS, name: text}
    assert written(tmp_path, files) == {**files, "a.py": MOVED}
    said = invoke(migrate, tmp_path).stderr
    assert f"{name}:{line}:" in said
    assert "this string requires Petastorm" in said


def test_requirement_in_pattern_of_sed_is_named(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.py": READS, "a.sh": "sed -i 's/petastorm==.*/x/' r.txt\n"})
    assert "a.sh:1:" in invoke(migrate, "-v", tmp_path).stderr
