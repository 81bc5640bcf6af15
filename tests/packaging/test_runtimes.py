"""mdstorm can be installed on Databricks' runtimes and environments and changes no library."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.kit.programs import run_command

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "constraints" / "databricks").glob("*.txt"))
#: The extra that users of each framework install.
EXTRAS = ("torch", "tf")

each_runtime = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def head(file: Path, key: str) -> str | None:
    """Return the value of `key` in a file's header comments."""
    found = re.search(rf"^# {key}: (.+)$", file.read_text("utf-8"), flags=re.M)
    return found and found[1]


def versions(text: str) -> dict[str, str]:
    """Return the pinned versions by package name, without the build dependencies of a wheel."""
    pins = re.findall(r"^([\w.-]+)==([\w.]+)", text, flags=re.M)
    return {canonicalize_name(name): version for name, version in pins}


def test_each_supported_runtime_and_environment_has_constraints_file() -> None:
    page = (ROOT / "docs" / "runtimes.md").read_text("utf-8")
    runtimes = re.findall(r"^\| (\d+(?:\.\d)?)(?: LTS)? ML ", page, flags=re.M)
    environments = re.findall(r"^\| environment version (\d) ", page, flags=re.M)
    names = {f"{name}-ml" for name in runtimes} | {f"env-{version}" for version in environments}
    assert names == {file.stem for file in FILES}


@each_runtime
def test_mdstorm_version_bounds_admit_runtime_libraries(file: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    theirs = versions(file.read_text("utf-8"))
    refused = [
        f"{requirement} is not {theirs[name]}"
        for requirement in map(Requirement, wanted)
        if (name := canonicalize_name(requirement.name)) in theirs
        and theirs[name] not in requirement.specifier
    ]
    assert not refused


@pytest.mark.long
@pytest.mark.newest
@pytest.mark.parametrize("extra", EXTRAS)
@each_runtime
def test_installing_mdstorm_changes_no_runtime_library(file: Path, extra: str) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    assert uv is not None
    python = head(file, "python")
    assert python is not None
    command = [uv, "pip", "compile", "--quiet", "--python-version", python]
    command += ["--python-platform", "x86_64-manylinux_2_28", "--constraint", str(file)]
    command += ["--extra", extra, "pyproject.toml"]
    installed = versions(run_command(*command, cwd=ROOT).stdout)
    theirs = versions(file.read_text("utf-8"))
    assert {"click", "numpy", "torch" if extra == "torch" else "tensorflow"} <= installed.keys()
    changed = {
        name: (theirs[name], version)
        for name, version in installed.items()
        if name in theirs and theirs[name] != version
    }
    assert not changed


@each_runtime
def test_runtime_constraints_do_not_pin_library_that_must_be_replaced(file: Path) -> None:
    replaced = head(file, "replaced")
    if replaced is not None:
        name = replaced.split()[0]
        assert name not in versions(file.read_text("utf-8"))
