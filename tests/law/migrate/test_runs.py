"""What ran before the migration of a project still runs, where it is installed.

Projects are made of code in folders, lists of requirements, and commands that install the lists
or Petastorm, and run the code or Petastorm's programs.
"""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml
from tests.kit.machine import Machine, RunError, runnables
from tests.kit.migrating import invoke, write_files

from mdstorm_migrate.cli.migrate import migrate

#: Programs: such that move, such that stay, both, and such that use neither library.
PROGRAMS = [
    "from petastorm import make_reader\n",
    "import petastorm\nprint(petastorm.make_reader)\n",
    "import pandas as pd\nfrom petastorm import make_batch_reader\n",
    "from pyspark.sql import SparkSession\nfrom petastorm.spark import make_spark_converter\n",
    "import torch\nfrom petastorm.pytorch import DataLoader\n",
    "import sys\nfrom petastorm.workers_pool.thread_pool import ThreadPool\n",
    "import petastorm.hdfs.namenode\n",
    "from petastorm import make_reader\nfrom petastorm.workers_pool.dummy_pool import DummyPool\n",
    "import json\n",
    "import pandas as pd\n",
]
#: Requirements, before the ones that a project always has.
REQUIREMENTS = ["petastorm", "petastorm==0.12.1", "petastorm[torch]", "petastorm>=0.11,<0.13"]
OTHERS = ["numpy", "torch", "pandas", "pyspark", "# petastorm reads the data", "requests==2.31"]
INSTALLS = ["petastorm", "petastorm==0.12.1", "numpy petastorm", "-q petastorm[torch]", "numpy"]
FOLDERS = ["", "app/", "jobs/", "app/train/"]


def code(draw: random.Random, folders: list[str]) -> dict[str, str]:
    """Return programs in each folder, some of which import another one in the folder."""
    found = {}
    for folder in folders:
        names = draw.sample(["main", "data", "util"], draw.randrange(1, 4))
        for number, name in enumerate(names):
            text = draw.choice(PROGRAMS)
            if number and draw.random() < 0.5:
                text += f"import {names[0]}\n"
            found[f"{folder}{name}.py"] = text
        if folder and draw.random() < 0.3:
            found[f"{folder}__init__.py"] = ""
    return found


def lists(draw: random.Random, folders: list[str]) -> dict[str, str]:
    """Return lists of requirements in some of the folders."""
    found = {}
    for folder in folders:
        names = [draw.choice(REQUIREMENTS), *draw.sample(OTHERS, draw.randrange(3))]
        if draw.random() < 0.15:
            names = names[1:]
        kind = draw.choice(["txt", "txt", "txt", "cfg", "toml", "conda", "none"])
        real = [one for one in names if not one.startswith("#")]
        if kind == "txt":
            found[f"{folder}requirements.txt"] = "\n".join([*names, ""])
            if draw.random() < 0.3:
                found[f"{folder}requirements-dev.txt"] = "-r requirements.txt\npytest\n"
        elif kind == "cfg":
            lines = "".join(f"\n    {one}" for one in real)
            found[f"{folder}setup.cfg"] = (
                f"[metadata]\nname = own\n\n[options]\ninstall_requires ={lines}\n"
            )
        elif kind == "toml":
            head = '[project]\nname = "own"\nversion = "1"\n'
            if draw.random() < 0.3:
                extra = f"[project.optional-dependencies]\ndata = {json.dumps(real)}\n"
                found[f"{folder}pyproject.toml"] = f"{head}dependencies = []\n\n{extra}"
            else:
                found[f"{folder}pyproject.toml"] = f"{head}dependencies = {json.dumps(real)}\n"
        elif kind == "conda":
            if draw.random() < 0.5:
                names = ["python=3.11", *({"pip": real} if n else "pip" for n in (0, 1))]
            else:
                names = ["python=3.11", *(one.replace("==", "=") for one in real if "[" not in one)]
            found[f"{folder}environment.yml"] = yaml.safe_dump({"dependencies": names})
    return found


def installs(draw: random.Random, files: Mapping[str, str], start: str) -> list[str]:
    """Return commands that install packages, in a folder of the project."""
    ways = [f"pip install {draw.choice(INSTALLS)}"]
    if draw.random() < 0.2:
        ways = ["pip show petastorm || pip install petastorm"]
    for path in files:
        if not path.startswith(start):
            continue
        folder, _, name = path.removeprefix(start).rpartition("/")
        if name.startswith("requirements"):
            one = path.removeprefix(start)
            ways += [f"pip install -r {one}", f"python -m pip install -q -r {one}"]
            ways += [f"cd {folder} && pip install -r {name}"] if folder else []
        elif name in ("setup.cfg", "pyproject.toml"):
            extra = "[data]" if "optional" in files[path] else ""
            ways += [f"pip install -e ./{folder}{extra}", f"pip install {folder or '.'}/{extra}"]
            ways[-1] = f"pip install ./{folder}{extra}"
        elif name == "environment.yml":
            ways.append(f"conda env create -f {path.removeprefix(start)}")
    found = draw.sample(ways, min(len(ways), draw.choice([1, 1, 1, 2])))
    return sorted(found, key=lambda one: one.startswith("cd "))


def programs(draw: random.Random, files: Mapping[str, str], start: str) -> list[str]:
    """Return commands that run programs, in a folder of the project."""
    own = [one.removeprefix(start) for one in files if one.startswith(start) and ".py" in one]
    own = [one for one in own if one.endswith(".py") and "__init__" not in one]
    ways = [f"python {one}" for one in own] * 2
    ways += [f"python -m {one.removesuffix('.py').replace('/', '.')}" for one in own]
    others = [
        'python -c "import petastorm"',
        'python -c "from petastorm import make_reader"',
        "petastorm-generate-metadata.py --dataset_url file:///d",
        "petastorm-throughput.py file:///d",
        "python -m petastorm.etl.petastorm_generate_metadata --dataset_url file:///d",
        "python -m petastorm.benchmark.cli file:///d",
    ]
    ways += draw.sample(others, 1 if own else 3)
    return draw.sample(ways, min(len(ways), draw.choice([1, 1, 2])))


def commands(draw: random.Random, files: Mapping[str, str], start: str = "") -> list[str]:
    return [*installs(draw, files, start), *programs(draw, files, start)]


def script(draw: random.Random, files: Mapping[str, str]) -> dict[str, str]:
    lines = commands(draw, files)
    if draw.random() < 0.3:  # one script installs, another one runs
        return {
            "setup.sh": "\n".join(["set -e", *installs(draw, files, ""), ""]),
            "run.sh": "\n".join(["bash setup.sh", *programs(draw, files, ""), ""]),
        }
    return {"scripts/run.sh": "\n".join(["#!/bin/bash", "set -e", *lines, ""])}


def makefile(draw: random.Random, files: Mapping[str, str]) -> dict[str, str]:
    text = ""
    for name in draw.sample(["train", "data", "check"], draw.randrange(1, 3)):
        if draw.random() < 0.5:
            setup = "".join(f"\t{one}\n" for one in installs(draw, files, ""))
            runs = "".join(f"\t{one}\n" for one in programs(draw, files, ""))
            text += f"setup-{name}:\n{setup}\n{name}: setup-{name}\n{runs}\n"
        else:
            lines = "".join(f"\t{one}\n" for one in commands(draw, files))
            text += f"{name}:\n{lines}\n"
    return {"Makefile": text}


def workflow(draw: random.Random, files: Mapping[str, str]) -> dict[str, str]:
    jobs = {}
    for name in draw.sample(["test", "train", "lint", "docs"], draw.randrange(1, 4)):
        start = draw.choice(["", *sorted({one.rpartition("/")[0] for one in files} - {""})])
        start = "" if start.startswith((".", "scripts")) else start
        within = f"{start}/" if start else ""
        lines = commands(draw, files, within)
        job: dict[str, object] = {"runs-on": "ubuntu-latest"}
        steps: list[dict[str, str]] = [{"uses": "actions/checkout@v4"}]
        if draw.random() < 0.5:
            steps += [{"run": one} for one in lines]
        else:
            steps.append({"name": "Run", "run": "\n".join([*lines, ""])})
        if start and draw.random() < 0.5:
            job["defaults"] = {"run": {"working-directory": start}}
        elif start:
            steps = [one | {"working-directory": start} for one in steps[1:]]
            steps.insert(0, {"uses": "actions/checkout@v4"})
        jobs[name] = {**job, "steps": steps}
    text = yaml.safe_dump({"on": "push", "jobs": jobs}, sort_keys=False)
    return {".github/workflows/ci.yml": text}


def gitlab(draw: random.Random, files: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, object] = {}
    is_shared = draw.random() < 0.4
    if is_shared:
        found["before_script"] = installs(draw, files, "")
    for name in draw.sample(["test", "train", "lint"], draw.randrange(1, 4)):
        lines = programs(draw, files, "")
        lines = lines if is_shared and draw.random() < 0.7 else [*installs(draw, files, ""), *lines]
        found[name] = {"image": "python:3.11", "script": lines}
    return {".gitlab-ci.yml": yaml.safe_dump(found, sort_keys=False)}


def stage(draw: random.Random, files: Mapping[str, str], start: str) -> tuple[list[str], list[str]]:
    """Return the instructions of an image that install, and the command that it runs."""
    here = [one.removeprefix(start) for one in files if one.startswith(start)]
    names = [one for one in here if one.endswith((".txt", ".toml", ".cfg"))]
    code = [one for one in here if one.endswith(".py")]
    found: list[str] = ["WORKDIR /app"]
    inside = {one: files[start + one] for one in here}
    ways = [one for one in installs(draw, inside, "") if "conda" not in one]
    if draw.random() < 0.5 or any(" ." in one for one in ways):
        found.append("COPY . .")
    else:
        found += [f"COPY {one} {one}" for one in names]
        ways = [f"RUN {one}" for one in ways]
        copied = draw.sample(code, min(len(code), 2))
        copies = [f"COPY {one} {one}" for one in copied]
        command = draw.choice(programs(draw, {one: files[start + one] for one in copied}, ""))
        return [*found, *ways, *copies], [command]
    return [*found, *(f"RUN {one}" for one in ways)], programs(draw, inside, "")[:1]


def dockerfile(draw: random.Random, files: Mapping[str, str], start: str = "") -> dict[str, str]:
    lines, (command,) = stage(draw, files, start)
    form = draw.choice(["list", "text"])
    last = f"CMD {json.dumps(command.split())}" if form == "list" else f"CMD {command}"
    last = f"CMD {command}" if '"' in command else last
    head = ["FROM python:3.11"]
    if draw.random() < 0.3:
        build = [f"RUN {one}" for one in installs(draw, {}, "")]
        way = draw.choice(["FROM base", "FROM python:3.11\nCOPY --from=base /venv /venv"])
        head = ["FROM python:3.11 AS base", *build, way]
    return {f"{start}Dockerfile": "\n".join([*head, *lines, last, ""])}


def compose(draw: random.Random, files: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    services: dict[str, object] = {}
    folders = sorted({one.rpartition("/")[0] for one in files if one.endswith(".py")})
    for name in draw.sample(["train", "web", "worker"], draw.randrange(1, 4)):
        kind = draw.choice(["build", "mount", "bare"])
        if kind == "build":
            folder = draw.choice(folders)
            start = f"{folder}/" if folder else ""
            if f"{start}Dockerfile" not in {**files, **found}:
                found |= dockerfile(draw, files, start)
            build: object = f"./{folder}" if draw.random() < 0.7 else {"context": folder or "."}
            services[name] = {"build": build}
            if draw.random() < 0.6:
                own = {one: "" for one in files if one.startswith(start)}
                services[name] |= {"command": draw.choice(programs(draw, own, start))}
        elif kind == "mount":
            line = " && ".join(commands(draw, files)).replace('"', "'")
            services[name] = {
                "image": "python:3.11",
                "working_dir": "/app",
                "volumes": [".:/app"],
                "command": f'bash -c "{line}"',
            }
        else:
            line = " && ".join(commands(draw, {})).replace('"', "'")
            services[name] = {"image": "python:3.11", "command": ["bash", "-c", line]}
    found["docker-compose.yml"] = yaml.safe_dump({"services": services}, sort_keys=False)
    return found


def kubernetes(draw: random.Random, files: Mapping[str, str]) -> dict[str, str]:
    containers = []
    found: dict[str, str] = {}
    for name in draw.sample(["main", "sidecar"], draw.randrange(1, 3)):
        if draw.random() < 0.5:
            line = " && ".join(commands(draw, {}))
            container = {"image": "python:3.11", "command": ["bash", "-c", line]}
        else:
            if "Dockerfile" not in files:
                found = found or dockerfile(draw, files)
            line = draw.choice(programs(draw, files, ""))
            command = ["bash", "-c", line] if '"' in line else line.split()
            container = {"image": "registry/app:1", "command": command}
        containers.append({"name": name, **container})
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"template": {"spec": {"containers": containers}}},
    }
    return {**found, "job.yaml": yaml.safe_dump(job, sort_keys=False)}


def tox(draw: random.Random, files: Mapping[str, str]) -> dict[str, str]:
    text = "[tox]\nenvlist = py311\n"
    for name in draw.sample(["", ":data", ":train"], draw.randrange(1, 4)):
        ways = [one.partition("install ")[2] for one in installs(draw, files, "")]
        ways = [one for one in ways if one and " petastorm" not in one and one[:2] != "-q"]
        lines = "".join(f"\n    {one}" for one in ways)
        runs = "".join(f"\n    {one}" for one in programs(draw, files, ""))
        text += f"\n[testenv{name}]\nskip_install = true\ndeps ={lines}\ncommands ={runs}\n"
    return {"tox.ini": text}


PLACES: list[Callable[[random.Random, Mapping[str, str]], dict[str, str]]] = [
    script,
    makefile,
    workflow,
    gitlab,
    dockerfile,
    compose,
    kubernetes,
    tox,
]


def project(draw: random.Random) -> dict[str, str]:
    """Return the texts of a project's files."""
    folders = draw.sample(FOLDERS, draw.choice([1, 1, 2]))
    files = code(draw, folders)
    files |= lists(draw, sorted({*folders, *draw.choice([[], [""]])}))
    for place in draw.sample(PLACES, draw.choice([1, 1, 2, 3])):
        files |= place(draw, files)
    return files


def outcomes(texts: Mapping[str, str]) -> dict[str, tuple[Machine | RunError, str]]:
    """Run everything in a project."""
    found: dict[str, tuple[Machine | RunError, str]] = {}
    for name, path, run in runnables(texts):
        try:
            found[name] = run(), path
        except RunError as error:
            found[name] = error, path
    return found


def reported(root: Path, report: Path, *options: str) -> set[str]:
    """Migrate a project, and return the files that the report names for review."""
    options = ("-q", "-j", "1", "--no-diff", *options)
    done = invoke(migrate, *options, "--report", report, root)
    assert done.exit_code in (0, 1), done.stderr
    return {
        Path(file["path"]).relative_to(root).as_posix()
        for file in json.loads(report.read_text())["files"]
        if any(one["rule"] != "PM001" for one in file["findings"])
    }


def broken(texts: Mapping[str, str], folder: Path) -> list[str]:
    """Migrate a project, and return what no longer runs and is not named by the reports."""
    root, report = folder / "project", folder / "report.json"
    write_files(root, dict(texts))
    before = outcomes(texts)
    named = reported(root, report, "-w")
    after = {one: (root / one).read_text() for one in texts}
    named |= reported(root, report, "--check")
    reported(root, report, "-w")
    again = {one: (root / one).read_text() for one in texts}
    found = [f"{one}: changed again" for one in texts if after[one] != again[one]]
    for name, (result, path) in outcomes(after).items():
        ran = before[name][0]
        if (
            isinstance(result, RunError)
            and isinstance(ran, Machine)
            and not named & {path, *ran.used}
        ):
            found.append(f"{name}: {result}")
    return found


#: Projects in which something breaks: jobs without an image, lists in tox.
KNOWN = {175, 229, 492}
LATER = [
    pytest.param(
        seed,
        marks=[pytest.mark.long, *([pytest.mark.xfail] if seed in KNOWN else [])],
    )
    for seed in range(8, 580)
]


@pytest.mark.parametrize("seed", [*range(8), *LATER])
def test_what_ran_before_still_runs_after_writing(seed: int, tmp_path: Path) -> None:
    texts = project(random.Random(seed))
    assert broken(texts, tmp_path) == []
