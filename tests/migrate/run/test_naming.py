"""Strings that name modules, and names that are followed from file to file, however many."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.migrate.checks import each
from tests.migrate.run.test_together import READS, SCHEMA, WORKER, migrated

from mdstorm_migrate.audit import audit
from mdstorm_migrate.run import index
from mdstorm_migrate.run.graph import Origins
from mdstorm_migrate.run.outcome import Settings
from mdstorm_migrate.run.together import run

LOADER = f"{READS}def load(url): return make_reader(url)\n"
#: A patch that means the same after both have moved, and one that mdstorm does not look up.
PATCH = "@patch('petastorm.make_reader')\ndef test(reader): load('u')\n"
INTERNAL = "@patch('petastorm.reader.Reader')\ndef test(reader): load('u')\n"
MOCK = "import sys\nsys.modules['petastorm'] = Mock()\n"
ASSIGNS = "import petastorm\npetastorm.reader.Reader.next = None\n"
SPHINX = "autodoc_mock_imports = ['petastorm', 'torch']\n"
FINDS = "import importlib\ndef f(n): return importlib.import_module(f'a.{n}')\n"
#: Hydra's way: what the configuration names is made, and handed to code.
YAML = "reader:\n  _target_: petastorm.make_reader\n"
RESOLVES = "from hydra.utils import instantiate\ndef reader(conf): return instantiate(conf)\n"


@each(
    # both move
    (
        {"src/p/loader.py": LOADER, "tests/test_it.py": f"from p import loader\n{PATCH}"},
        "src/p/loader.py tests/test_it.py",
    ),
    # the patch waits, and what it reaches with it
    ({"loader.py": LOADER, "test_it.py": f"from loader import load\n{INTERNAL}"}, ""),
    (
        {
            "p/loader.py": LOADER,
            "p/app.py": "from . import loader\n",
            "tests/test_it.py": f"from p.app import main\n{INTERNAL}",
            "other.py": READS,
        },
        "other.py",
    ),
    # what is tested stays, so its mocks do; another test's move
    (
        {
            "work.py": WORKER,
            "loader.py": LOADER,
            "test_work.py": f"import work\n{MOCK}",
            "test_loader.py": f"import loader\n{PATCH}",
        },
        "loader.py test_loader.py",
    ),
    # mocks in a conftest are felt by all tests below it
    ({"tests/conftest.py": MOCK, "tests/test_it.py": "import work\n", "work.py": WORKER}, ""),
    (
        {"tests/conftest.py": MOCK, "a/test_it.py": "import a\n", "a.py": READS},
        "a.py tests/conftest.py",
    ),
    (
        {
            "tests/conftest.py": INTERNAL,
            "tests/test_it.py": "import loader\n",
            "loader.py": LOADER,
            "other.py": READS,
        },
        "other.py",
    ),
    # helpers that patch, and what runs beside them
    (
        {
            "fakes.py": f"{MOCK}sys.modules['petastorm.reader.worker'] = 1\n",
            "main.py": "import fakes\nimport loader\n",
            "loader.py": LOADER,
        },
        "",
    ),
    # so are assignments to parts of modules
    ({"fixes.py": ASSIGNS, "train.py": f"import fixes\n{READS}", "a.py": READS}, "a.py"),
    # patches of what a plugin finds by a name that is put together
    ({"app.py": FINDS, "test_app.py": f"import app\n{PATCH}", "work.py": WORKER}, ""),
    # Sphinx imports all code
    ({"docs/conf.py": SPHINX, "a.py": READS}, "a.py docs/conf.py"),
    ({"docs/conf.py": SPHINX, "a.py": READS, "work.py": WORKER}, "a.py"),
    # a name of the project's own is nothing to wait for
    (
        {
            "loader.py": LOADER,
            "work.py": WORKER,
            "test_it.py": "import loader\n@patch('loader.make_reader')\ndef test(r): ...\n",
        },
        "loader.py",
    ),
    # names in Python, made by another file
    (
        {
            "conf.py": "CONF = {'_target_': 'petastorm.make_reader'}\n",
            "main.py": f"from conf import CONF\n{RESOLVES}{WORKER}",
            "other.py": READS,
        },
        "other.py",
    ),
)
def test_patches_move_with_what_they_reach(
    files: dict[str, str], moving: str, tmp_path: Path
) -> None:
    assert sorted(migrated(tmp_path, files)) == moving.split()


def test_a_patch_and_what_it_reaches_are_written_together(tmp_path: Path) -> None:
    files = {"loader.py": LOADER, "test_it.py": f"import loader\n{PATCH}"}
    migrated(tmp_path, files)
    (tmp_path / "loader.py").chmod(0o444)
    paths = sorted(tmp_path.iterdir())
    found = list(run(paths, Settings(), write=True))
    assert [one.group for one in found] == [tuple(map(str, paths))] * 2
    assert not any(one.written for one in found)


def test_the_reason_names_the_file_that_waits(tmp_path: Path) -> None:
    migrated(tmp_path, {"loader.py": LOADER, "test_it.py": f"import loader\n{INTERNAL}"})
    first, _ = run(sorted(tmp_path.iterdir()), Settings())
    (finding,) = first.outcome.findings
    assert finding.message.endswith(
        f"; only --unsafe applies it, because strings in `{tmp_path}/test_it.py` name modules that "
        "this file uses, and need review"
    )


def test_petastorm_stays_required_for_what_configuration_names(tmp_path: Path) -> None:
    files = {"c.yaml": YAML, "main.py": RESOLVES, "train.py": READS}
    after = migrated(tmp_path, {**files, "requirements.txt": "petastorm==0.12.1\n"})
    assert after["requirements.txt"] == "mdstorm\npetastorm==0.12.1\n"


def test_an_audit_counts_what_waits_for_other_files(tmp_path: Path) -> None:
    files = {"loader.py": LOADER, "test_it.py": f"import loader\n{INTERNAL}", "other.py": READS}
    migrated(tmp_path, files)
    found = audit(sorted(tmp_path.iterdir()), Settings())
    assert [file.effort for file in found.files] == ["review", "exact", "review"]


def _chain(count: int) -> dict[str, str]:
    """Each file hands the schema of the one before on, to one that stays."""
    files = {f"m{n}.py": f"from m{n - 1} import SCHEMA\n" for n in range(1, count)}
    return files | {"m0.py": "from base import SCHEMA\n"}


def _star(count: int) -> dict[str, str]:
    """One file takes from all others, and each of these from it."""
    names = range(count - 1)
    hub = "from base import SCHEMA\n" + "".join(f"from m{n} import S{n}\n" for n in names)
    return {f"m{n}.py": f"from hub import SCHEMA\nS{n} = SCHEMA\n" for n in names} | {
        "hub.py": hub,
        f"m{count - 1}.py": "from hub import *\n",
    }


def _parts(count: int) -> dict[str, str]:
    """All files have the same name, each in a folder of its own."""
    files = {f"p{n}/part.py": f"from p{n - 1}.part import SCHEMA\n" for n in range(1, count)}
    last = f"from p{count - 1}.part import SCHEMA\n"
    return files | {"p0/part.py": "from base import SCHEMA\n", f"m{count - 1}.py": last}


@each(_chain, _star, _parts)
def test_work_grows_as_the_number_of_files_does(
    make: Callable[[int], dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []
    parsed: list[Path] = []
    offered_by, exchange_of = Origins._offered_by, index._exchange_of
    monkeypatch.setattr(
        Origins, "_offered_by", lambda self, path: looks.append(path) or offered_by(self, path)
    )
    monkeypatch.setattr(
        index, "_exchange_of", lambda path: parsed.append(path) or exchange_of(path)
    )
    for count in (20, 60):
        looks.clear()
        parsed.clear()
        last = f"m{count - 1}"
        files = {
            **make(count),
            "base.py": SCHEMA,
            "work.py": f"{WORKER}from {last} import SCHEMA\n",
        }
        assert migrated(tmp_path / str(count), files) == {}  # all wait for the one that stays
        assert len(parsed) == len(set(parsed)) == len(files) - 2
        assert len(looks) <= 6 * len(files)
