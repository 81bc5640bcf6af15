"""Names that reach Petastorm through another module count like names in the same file."""

from pathlib import Path

import pytest
from tests.kit.migrating import each, invoke, run, write_files

from mdstorm_migrate.audit import audit
from mdstorm_migrate.cli.migrate import migrate as command
from mdstorm_migrate.run.discover import discover
from mdstorm_migrate.run.outcome import Settings

ROOT = "import petastorm\n"
IMPORTS = "from _pt import make_reader as m\n"
READS = "from petastorm import make_reader\n"
COMPARES = "parse(_pt.petastorm.__version__) >= parse('0.11')\n"
WORKER = "from petastorm.reader import ArrowReaderWorker\n"
CONVERTS = "from petastorm.spark import make_spark_converter\n"


def rules_of(root: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """Return the codes of the findings in each file, and of the edits to it in lower case."""
    write_files(root, files)
    return {
        one.path.relative_to(root).as_posix(): [
            *(found.rule for found in one.outcome.findings if found.cls == "manual"),
            *(edit.rule.lower() for edit in one.outcome.edits),
        ]
        for one in run(discover([root]), Settings(todo=False))
    }


@each(
    # through an attribute of a module, a name, a star import, a package, an alias, a chain of files
    ({"_pt.py": ROOT, "a.py": f"import _pt\n{COMPARES}"}, "PM107"),
    ({"_pt.py": ROOT, "a.py": "from _pt import petastorm\npetastorm.__version__ > '1'\n"}, "PM107"),
    (
        {
            "lib/petastorm.py": ROOT,
            "a.py": "from lib.petastorm import petastorm as p\np.x\n",
        },
        "PM107",
    ),
    ({"_pt.py": ROOT, "a.py": "from _pt import *\npetastorm.__version__ > '1'\n"}, "PM107"),
    (
        {
            "lib/__init__.py": "from .pt import version as v\n",
            "lib/pt.py": "from petastorm import __version__ as version\n",
            "a.py": "from lib import v\nv >= '0.11'\n",
        },
        "PM107",
    ),
    ({"lib/_pt.py": ROOT, "a.py": f"import lib._pt as _pt\n{COMPARES}"}, "PM107"),
    ({"lib/pt.py": ROOT, "a.py": "import lib.pt\nlib.pt.petastorm.__version__ > '1'\n"}, "PM107"),
    ({"lib/_pt.py": ROOT, "a.py": f"from lib import _pt\n{COMPARES}"}, "PM107"),
    ({"_pt.py": "from petastorm.reader import *\n", "a.py": f"{IMPORTS}m(d, colour=1)\n"}, "PM113"),
    # other rules
    ({"_pt.py": READS, "a.py": f"{IMPORTS}m(url, colour=1)\n"}, "PM113"),
    ({"_pt.py": READS, "a.py": f"{IMPORTS}m(url, shuffle=1)\n"}, "PM106"),
    ({"_pt.py": READS, "a.py": f"{IMPORTS}m(u)._workers_pool\n"}, "PM117"),
    ({"_pt.py": ROOT, "a.py": "import _pt\n_pt.petastorm.reader.Reader.next = 1\n"}, "PM107"),
    (
        {
            "_pt.py": READS,
            "a.py": f"{IMPORTS}def f():\n    with m(u) as r: return r\n",
        },
        "PM114",
    ),
    ({"_pt.py": f"{WORKER}W = ArrowReaderWorker\n", "a.py": "from _pt import W\nW()\n"}, "PM107"),
)
def test_use_through_another_module_is_reported_like_use_in_file(
    files: dict[str, str], rule: str, tmp_path: Path
) -> None:
    assert rule in rules_of(tmp_path, files)["a.py"]


def test_version_compared_in_another_module_keeps_import_on_petastorm(tmp_path: Path) -> None:
    write_files(tmp_path, {"_pt.py": ROOT, "a.py": f"import _pt\n{COMPARES}"})
    assert invoke(command, "-w", "-j", "1", tmp_path).exit_code == 0
    assert (tmp_path / "_pt.py").read_text() == ROOT
    assert invoke(command, "--check", "-j", "1", tmp_path).exit_code == 1


@each(
    # names that another import or a parameter binds, and names that mdstorm has, are not reported
    {"_pt.py": READS, "a.py": f"{IMPORTS}m(url, seed=1)\n"},
    {"_pt.py": READS, "a.py": "import _pt\ndef f(_pt): _pt.make_reader(url, colour=1)\n"},
    {"_pt.py": READS, "a.py": "from other import make_reader\nmake_reader(url, colour=1)\n"},
    {"_pt.py": "def f():\n    import petastorm\n", "a.py": "import _pt\n_pt.petastorm.x()\n"},
)
def test_name_that_does_not_reach_missing_part_is_not_reported(
    files: dict[str, str], tmp_path: Path
) -> None:
    *_, name = files
    assert rules_of(tmp_path, files).get(name, []) == []


@each(
    ("def one(a): return make_spark_converter(a)\n", "from data import one\nwith one(a)"),
    (
        "def two(a): return make_spark_converter(a), make_spark_converter(a)\n",
        "from data import two\ntrain, test = two(a)\nwith train",
    ),
    ("CONVERTER = make_spark_converter(df)\n", "import data\nwith data.CONVERTER"),
)
def test_loader_of_converter_from_another_module_is_counted(
    data: str, use: str, tmp_path: Path
) -> None:
    train = f"{use}.make_tf_dataset() as d: d\n"
    pins = "petastorm==0.12.1\ntensorflow==2.11.0\n"
    write_files(tmp_path, {"data.py": CONVERTS + data, "train.py": train, "requirements.txt": pins})
    found = audit(discover([tmp_path]), Settings())
    assert "Spark converter: TensorFlow datasets" in {one.feature for one in found.features()}
    assert any("tensorflow==2.11.0" in one.message for one in found.conditions)
    assert "tensorflow==2.11.0" in invoke(command, "-j", "1", tmp_path).stderr
    (tmp_path / "requirements.txt").write_text("petastorm==0.12.1\n")
    assert "+mdstorm[spark,tf]" in invoke(command, "-j", "1", tmp_path).stdout


@pytest.mark.parametrize("module", ["lib/{}.py", "lib/{}/__init__.py"])
@pytest.mark.parametrize("source", [ROOT, READS])
@each(
    ("a.py", "from lib import {0}\n{0}.own(url)\n"),
    ("lib/a.py", "from . import {0}\n{0}.own(url)\n"),
    ("lib/a.py", "from .{0} import make_reader\nmake_reader(url, colour=1)\n"),
    ("a.py", "import lib.{0}\nlib.{0}.own(url)\n"),
    ("a.py", "import lib.{0} as one\none.make_reader(url, colour=1)\n"),
    ("a.py", "from lib.{0} import make_reader as m\nm(url, colour=1)\n"),
    ("a.py", "from lib.{0} import petastorm as p\np.x\n"),
    ("a.py", "from lib.{0} import *\nmake_reader(url, colour=1)\n"),
    ("a.py", "from lib import {0}\n{0}.make_reader(url, colour=1)\n"),
)
def test_module_of_project_may_have_the_name_of_the_library(
    name: str, use: str, source: str, module: str, tmp_path: Path
) -> None:
    found = []
    for own in ("helper", "petastorm"):
        files = {module.format(own): source, name: use.format(own), "lib/__init__.py": ""}
        rules = rules_of(tmp_path / own, files)
        found.append([rules.get(file, []) for file in files])
    assert found[0] == found[1]
