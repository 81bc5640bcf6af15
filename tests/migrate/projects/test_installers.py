"""Migrated projects in the hands of pip, Poetry and tox, with mdstorm's wheel as it is built."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.migrate.checks import invoke
from tests.migrate.projects.index import ROOT, make_index, serve_as_simple
from tests.migrate.projects.project import CASES, listed, names, unpack

from mdstorm_migrate.cli.migrate import migrate as command

pytestmark = [pytest.mark.long, pytest.mark.newest]


def _first_line(name: str) -> str:
    return (CASES / f"{name}.txt").read_text().partition("\n")[0].removeprefix("$").strip()


#: pip reads lists, and no other files.
LISTS = [
    name for name in names() if re.match(r"conda|setup|words|uv .*(?<!toml)$", _first_line(name))
]
#: Of Poetry, those whose other dependencies are on disk.
POETRY = ["poetry", "poetry_locked"]
TOX = ["tox", "tox_commands"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    make_index(folder, with_mdstorm=False)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    assert list(folder.glob("mdstorm-*.whl"))
    return folder


@pytest.fixture(scope="module")
def url(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index on localhost."""
    root = tmp_path_factory.mktemp("index")
    serve_as_simple(wheels, root)
    handler = functools.partial(_Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/simple/"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def tools() -> Path:
    """The folder of the other tools' commands."""
    python = os.environ.get("MDSTORM_INSTALLERS_PYTHON")
    if python is None or not Path(python).exists():
        pytest.skip("MDSTORM_INSTALLERS_PYTHON does not name a Python with Poetry and tox")
    return Path(python).parent


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


def migrated(name: str, root: Path) -> str:
    """Write a project, migrate it, and return what is installed of it."""
    what = unpack((CASES / f"{name}.txt").read_text(), root)
    done = invoke(command, "-w", "--no-diff", "--unsafe", "-j", "1", ".")
    assert done.exit_code == 0, done.stderr
    return what


def run(*words: object, **options: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **options},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", LISTS)
def test_pip_would_install_it(name: str, inside: Path, wheels: Path) -> None:
    path = listed(inside, migrated(name, inside))
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    report = run(*pip, "--report", "-", "--no-index", "--find-links", wheels, "-r", path)
    found = {one["metadata"]["name"] for one in json.loads(report)["install"]}
    assert found & {"mdstorm", "petastorm"}


@pytest.mark.parametrize("name", POETRY)
def test_poetry_locks_it(name: str, inside: Path, tools: Path, url: str) -> None:
    migrated(name, inside)
    (inside / "poetry.lock").unlink(missing_ok=True)
    project = inside / "pyproject.toml"
    text = re.sub(r', source = "[^"]*"', "", project.read_text())
    # Of the index, since nothing else can be reached.
    text = re.sub(r"(?s)\[\[tool\.poetry\.source\]\].*?(?=\n\[|\Z)", "", text)
    source = f'\n[[tool.poetry.source]]\nname = "local"\nurl = "{url}"\npriority = "primary"\n'
    project.write_text(text + source)
    home = {"POETRY_CACHE_DIR": str(inside / ".cache"), "POETRY_VIRTUALENVS_CREATE": "false"}
    run(tools / "poetry", "lock", "--no-interaction", **home)
    assert 'name = "mdstorm"' in (inside / "poetry.lock").read_text()


@pytest.mark.parametrize("name", TOX)
def test_tox_reads_it(name: str, inside: Path, tools: Path) -> None:
    migrated(name, inside)
    shown = run(tools / "tox", "config", "-k", "deps")
    assert "mdstorm" in shown
    assert "petastorm" not in shown
