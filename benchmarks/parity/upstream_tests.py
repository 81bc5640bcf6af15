"""Run the test suites of Petastorm and MosaicML Streaming on mdstorm.

    upstream_tests.py [petastorm] [mosaic]

Petastorm's tests are part of its package, which `../make_environments.sh petastorm` installs.
MosaicML Streaming's tests are part of its source distribution, which pip downloads. Copies of the
tests import mdstorm instead of the library. Names that mdstorm does not have become `Missing`, so
that only the tests that use them fail. `upstream/failures.py` lists the failing tests, with the
reasons. MosaicML Streaming's test helpers are not distributed; `upstream/common` has our own.

Exit code 0: each test passes or is listed. Exit code 1: the output lists the other tests that fail,
and the listed tests that pass.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "upstream"))

from failures import FAILURES  # noqa: E402

ENVIRONMENTS = HERE.parent / ".environments"
#: The interpreter of an environment with pip, which downloads MosaicML Streaming's tests.
PIP = HERE.parents[1] / ".venv-uv" / "bin" / "python"
MOSAIC = "mosaicml-streaming==0.13.0"
#: Text that is replaced in the tests: names that NumPy and Python have since removed, and
#: Petastorm's private setting for the field order, which the tests do not need.
REPLACED = {
    r"\bnp\.string_\b": "np.bytes_",
    r"\bnp\.unicode_\b": "np.str_",
    r"\bnp\.(bool|object|float|int)\b(?!_)": r"\1",
    r"\binspect\.getargspec\b": "inspect.getfullargspec",
    r"@mock\.patch\('\w+\.unischema\._UNISCHEMA_FIELD_ORDER'.*": "",
}


def petastorm_tests(folder: Path) -> Path:
    """Copy Petastorm's tests as the package `upstream`; they then import `mdstorm`."""
    (installed,) = (ENVIRONMENTS / "petastorm").glob("lib/python3*/site-packages/petastorm")
    package = folder / "upstream"
    shutil.copytree(installed / "tests", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(installed / "test_util", package / "test_util")
    for path in package.rglob("*.py"):
        text = path.read_text("utf-8")
        text = re.sub(r"\bpetastorm\.tests\b", "upstream", text)
        text = re.sub(r"\bpetastorm\.test_util\b", "upstream.test_util", text)
        text = re.sub(r"\bfrom petastorm import tests\b", "import upstream as tests", text)
        text = re.sub(r"\bpetastorm(?=[.]| import)", "mdstorm", text)
        # Disable a hook for a plugin that is not needed.
        text = text.replace("def pytest_logger_config", "def _logger_config")
        path.write_text(tolerant(text), "utf-8")
    return package


def mosaic_tests(folder: Path) -> Path:
    """Download MosaicML Streaming's tests, and copy them; they then import mdstorm."""
    download = [PIP, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*download, "--dest", folder, MOSAIC], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    package = folder / "tests"
    (found,) = folder.glob("mosaicml*/tests")
    shutil.copytree(found, package)
    shutil.copytree(HERE / "upstream" / "common", package / "common")
    shutil.copy(HERE / "upstream" / "mosaic_conftest.py", package / "conftest.py")
    (package / "__init__.py").touch()
    for path in package.glob("test_*.py"):
        path.write_text(tolerant(path.read_text("utf-8")), "utf-8")
    return package


TESTS = {"petastorm": petastorm_tests, "mosaic": mosaic_tests}


def tolerant(text: str) -> str:
    """Return a program in which missing names are imported as `Missing`."""
    for old, new in REPLACED.items():
        text = re.sub(old, new, text)
    tree = ast.parse(text)
    tree.body = [line for node in tree.body for line in _tolerant(node)]
    return ast.unparse(tree)


def _tolerant(node: ast.stmt) -> Iterator[ast.stmt]:
    if not isinstance(node, ast.Import | ast.ImportFrom) or _module(node) == "__future__":
        yield node
        return
    for name in node.names:
        one = (
            ast.Import([name])
            if isinstance(node, ast.Import)
            else ast.ImportFrom(node.module, [name], node.level)
        )
        bound = name.asname or name.name.split(".")[0]
        # `import a.b` binds `a`, which may exist without `b`.
        is_part = isinstance(node, ast.Import) and "." in name.name and not name.asname
        absent = "pass" if is_part else f"from missing import Missing as {bound}"
        (caught,) = ast.parse(f"try:\n    pass\nexcept ImportError:\n    {absent}").body
        assert isinstance(caught, ast.Try)
        caught.body = [one]
        yield caught


def _module(node: ast.Import | ast.ImportFrom) -> str | None:
    return node.module if isinstance(node, ast.ImportFrom) else None


def results(package: Path) -> dict[str, str]:
    """Run the tests, and return the outcomes, keyed by file and test name."""
    report = package.parent / "report.xml"
    path = [package.parent, HERE / "upstream", os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, "--rootdir", package.parent, "-W", "ignore"]
    command += ["--continue-on-collection-errors", f"--junit-xml={report}", package]
    with open(Path(tempfile.gettempdir()) / f"{package.name}.log", "w") as log:
        subprocess.run(command, env=environment, stdout=log, stderr=log, cwd=package.parent)
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").split(".")
        name = ".".join([*file, case.get("name", "")]).removeprefix(f"{package.name}.")
        outcomes = {child.tag for child in case} & {"failure", "error", "skipped"}
        found[name] = min(outcomes, default="passed")
    return found


def check(library: str) -> int:
    """Run a library's tests, print how many passed, and return how many results are unexplained."""
    with tempfile.TemporaryDirectory() as folder:
        found = results(TESTS[library](Path(folder)))
    failing = {name for name, outcome in found.items() if outcome in ("failure", "error")}
    known = {name for name in found if any(fnmatchcase(name, one) for one in FAILURES[library])}
    for name in sorted(failing - known):
        print(f"{library}: {name} fails, but upstream/failures.py does not list it")
    used = {one for one in FAILURES[library] if any(fnmatchcase(name, one) for name in failing)}
    for pattern in sorted(FAILURES[library].keys() - used):
        print(f"{library}: no test that matches {pattern} fails; remove it from failures.py")
    counts = Counter(found.values())
    print(
        f"{library}: {counts['passed']} tests passed, {counts['skipped']} skipped, "
        f"{len(failing & known)} failed for the reasons in upstream/failures.py, "
        f"{len(failing - known)} failed for other reasons"
    )
    return len(failing - known) + len(FAILURES[library].keys() - used)


if __name__ == "__main__":
    sys.exit(1 if sum([check(library) for library in sys.argv[1:] or TESTS]) else 0)
