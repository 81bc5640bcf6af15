"""What `make release` refuses, and what it makes of the files in ``dist/``."""

import hashlib
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mdstorm

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(tmp_path: Path) -> dict[str, Any]:
    found = runpy.run_path(str(ROOT / "scripts" / "release.py"))
    found["write_checksums"].__globals__["DIST"] = tmp_path
    return found


def test_the_changelog_has_a_dated_section_of_this_version(script: dict[str, Any]) -> None:
    assert script["version_of_code"]() == mdstorm.__version__
    script["check_changelog"](mdstorm.__version__)
    with pytest.raises(SystemExit, match="has no heading `## 99"):
        script["check_changelog"]("99.0.0")


def test_a_failing_step_ends_it_with_what_was_said(script: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match="failed:\nno such wheel"):
        script["run"](sys.executable, "-c", "raise SystemExit('no such wheel')")


def test_changes_without_a_commit_are_refused(script: dict[str, Any], tmp_path: Path) -> None:
    script["run"].__kwdefaults__["cwd"] = tmp_path
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    script["check_nothing_is_uncommitted"]()
    (tmp_path / "new.py").touch()
    with pytest.raises(SystemExit, match=r"commit these changes first.*\n.*new\.py"):
        script["check_nothing_is_uncommitted"]()


def test_every_file_has_a_checksum(script: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"wheel")
    (tmp_path / "a.json").write_bytes(b"bill")
    script["write_checksums"]()
    lines = (tmp_path / "SHA256SUMS").read_text("utf-8").splitlines()
    digests = [hashlib.sha256(content).hexdigest() for content in (b"bill", b"wheel")]
    assert lines == [f"{digests[0]}  a.json", f"{digests[1]}  b.whl"]


@pytest.mark.long
def test_the_wheel_works_in_an_empty_environment_and_has_a_bill(
    script: dict[str, Any], tmp_path: Path
) -> None:
    script["build"].__globals__["DIST"] = tmp_path / "dist"
    wheel = script["build"]()
    python = script["try_wheel"](wheel, sys.executable, tmp_path / "environment")
    script["write_bill"](python, tmp_path / "bill.json")
    assert '"purl": "pkg:pypi/pyarrow@' in (tmp_path / "bill.json").read_text("utf-8")
