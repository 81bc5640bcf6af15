"""The wheel, installed with the base dependencies only, and the release script."""

import hashlib
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.kit.programs import run_command

import mdstorm

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[2]
PACKAGES = {"mdstorm", "mdstorm_backend", "mdstorm_migrate"}
UV = (sys.executable, "-m", "uv")  # several times as fast as pip


def run(*command: str | Path, cwd: Path) -> str:
    return run_command(*command, cwd=cwd).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    # Without --wheel, the wheel is built from the sdist, which must be complete.
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", target, ROOT, cwd=target)
    (built,) = target.glob("*.whl")
    return built


def install(wheel: Path, target: Path, python: str, *options: str | Path) -> Path:
    """Create an environment with the wheel, and return the environment's folder of commands."""
    installed = target / "venv" / "bin"
    run(*UV, "venv", "--quiet", "--python", python, target / "venv", cwd=target)
    where = ("--quiet", "--python", installed / "python")
    run(*UV, "pip", "install", *where, *options, wheel, cwd=target)
    return installed


@pytest.fixture(scope="module")
def base_install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an environment with the wheel, and with this environment's dependency versions."""
    target = tmp_path_factory.mktemp("base")
    constraints = target / "constraints.txt"
    constraints.write_text(
        run(*UV, "pip", "freeze", "--python", sys.executable, "--exclude-editable", cwd=target)
    )
    return install(wheel, target, sys.executable, "--constraint", constraints)


@pytest.mark.long
def test_wheel_ships_the_typed_packages_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert "mdstorm_backend/streaming/base/shuffle/__init__.pyi" in names
    top_level = {name.partition("/")[0] for name in names}
    assert {name for name in top_level if not name.endswith(".dist-info")} == PACKAGES
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@pytest.mark.long
def test_description_for_package_index_has_no_relative_links(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        description = archive.read(name).decode().partition("\n\n")[2]
    assert "# mdstorm" in description
    targets = re.findall(r"\]\(([^)\s]+)\)", description)
    assert not [target for target in targets if "://" not in target and target[0] != "#"]


@pytest.mark.long
def test_command_that_writes_metadata_is_installed(base_install: Path, tmp_path: Path) -> None:
    said = run(base_install / "mdstorm-generate-metadata.py", "--help", cwd=tmp_path)
    assert "--dataset_url" in said


@pytest.mark.long
def test_base_install_imports_and_shows_help(base_install: Path, tmp_path: Path) -> None:
    python = base_install / "python"
    run(python, "-c", f"import {', '.join(sorted(PACKAGES))}", cwd=tmp_path)
    assert "Usage" in run(base_install / "mdstorm", "--help", cwd=tmp_path)
    shown = run(python, "-c", "import mdstorm; help(mdstorm)", cwd=tmp_path)
    assert "make_batch_reader" in shown
    assert "No module named" not in shown
    assert "make_batch_reader" in run(python, "-m", "pydoc", "mdstorm", cwd=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_installed_wheel_imports_and_shows_help_on_each_python_version(
    version: str, wheel: Path, tmp_path: Path
) -> None:
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-V"], check=False).returncode:
        pytest.skip(f"needs python{version}")
    installed = install(wheel, tmp_path, python)
    imports = f"import {', '.join(sorted(PACKAGES))}"
    run(installed / "python", "-W", "error", "-c", imports, cwd=tmp_path)
    assert "Examples:" in run(installed / "mdstorm", "convert", "--help", cwd=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("mdstorm.pytorch", "torch"),
        ("mdstorm.lightning", "torch"),
        ("mdstorm.transformers", "torch"),
        ("mdstorm.tf_utils", "tf"),
    ],
)
def test_importing_module_without_its_extra_raises_error_with_install_command(
    module: str, extra: str, base_install: Path, tmp_path: Path
) -> None:
    program = f"try: import {module}\nexcept ModuleNotFoundError as error: print(error)"
    shown = run(base_install / "python", "-c", program, cwd=tmp_path)
    assert f'Install it with: pip install "mdstorm[{extra}]"' in shown


@pytest.mark.long
def test_making_loader_without_its_extra_raises_error_naming_the_extra(
    base_install: Path, tmp_path: Path
) -> None:
    program = """
from mdstorm.errors import MissingDependencyError
from mdstorm.spark import SparkDatasetConverter
converter = SparkDatasetConverter(None, ["file:///x.parquet"], 1)
for make in (converter.make_torch_dataloader, converter.make_tf_dataset):
    try:
        make()
    except MissingDependencyError as error:
        print(error.extra)
"""
    shown = run(base_install / "python", "-c", program, cwd=tmp_path)
    assert shown.split() == ["torch", "tf"]


@pytest.fixture
def script(tmp_path: Path) -> dict[str, Any]:
    """The release script's functions, which write to the test's folder instead of ``dist/``."""
    found = runpy.run_path(str(ROOT / "scripts" / "release.py"))
    found["write_checksums"].__globals__["DIST"] = tmp_path
    return found


def test_changelog_has_dated_section_for_this_version(script: dict[str, Any]) -> None:
    assert script["version_of_code"]() == mdstorm.__version__
    script["check_changelog"](mdstorm.__version__)
    with pytest.raises(SystemExit, match="has no heading `## 99"):
        script["check_changelog"]("99.0.0")


def test_failing_release_step_stops_the_release_and_shows_its_output(
    script: dict[str, Any],
) -> None:
    with pytest.raises(SystemExit, match="failed:\nno such wheel"):
        script["run"](sys.executable, "-c", "raise SystemExit('no such wheel')")


def test_release_with_uncommitted_changes_fails(script: dict[str, Any], tmp_path: Path) -> None:
    script["run"].__kwdefaults__["cwd"] = tmp_path
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    script["check_nothing_is_uncommitted"]()
    (tmp_path / "new.py").touch()
    with pytest.raises(SystemExit, match=r"commit these changes first.*\n.*new\.py"):
        script["check_nothing_is_uncommitted"]()


def test_every_release_file_has_checksum(script: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"wheel")
    (tmp_path / "a.json").write_bytes(b"bill")
    script["write_checksums"]()
    lines = (tmp_path / "SHA256SUMS").read_text("utf-8").splitlines()
    digests = [hashlib.sha256(content).hexdigest() for content in (b"bill", b"wheel")]
    assert lines == [f"{digests[0]}  a.json", f"{digests[1]}  b.whl"]


@pytest.mark.long
def test_wheel_runs_in_an_empty_environment_and_has_a_bill_of_materials(
    script: dict[str, Any], tmp_path: Path
) -> None:
    script["build"].__globals__["DIST"] = tmp_path / "dist"
    wheel = script["build"]()
    python = script["try_wheel"](wheel, sys.executable, tmp_path / "environment")
    script["write_bill"](python, tmp_path / "bill.json")
    assert '"purl": "pkg:pypi/pyarrow@' in (tmp_path / "bill.json").read_text("utf-8")
