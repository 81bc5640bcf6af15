"""Build the files of a release in ``dist/``: see "Release" in PUBLISHING.md.

These are the distributions, checked and installed into empty environments; the site, if it was
built by `make docs`; the licences; a bill of materials in CycloneDX; and checksums of all of them.
Nothing is published.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
UV = (sys.executable, "-m", "uv")
TWINE = "twine>=6.1"
CYCLONEDX = "cyclonedx-bom>=7,<8"

#: Program that tests an installation without extras.
_TRY = """
import pyarrow, pyarrow.parquet
rows = pyarrow.table({"id": range(1000), "text": ["é"] * 1000})
pyarrow.parquet.write_table(rows, "rows.parquet")
import mdstorm, mdstorm_backend, mdstorm_migrate
mdstorm.convert("rows.parquet", "rows", progress=False)
assert mdstorm_backend.open_dataset("rows").to_table()["id"].to_pylist() == [*range(1000)]
"""


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a program and return its output; exit with that output if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"error: {' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout.strip()


def version_of_code() -> str:
    """Return the version that `compat/mdstorm/__init__.py` defines."""
    text = (ROOT / "compat" / "mdstorm" / "__init__.py").read_text("utf-8")
    match = re.search(r'^__version__ = "(.+)"$', text, re.M)
    if match is None:
        raise SystemExit("error: compat/mdstorm/__init__.py defines no __version__")
    return match[1]


def check_changelog(version: str) -> None:
    """Exit unless the changelog has a dated section for the version."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", text, re.M):
        raise SystemExit(f"error: CHANGELOG.md has no heading `## {version} (YYYY-MM-DD)`")


def check_nothing_is_uncommitted() -> None:
    """Exit if there are uncommitted changes."""
    changed = run("git", "status", "--porcelain")
    if changed:
        raise SystemExit(f"error: commit these changes first, or pass --uncommitted:\n{changed}")


def build() -> Path:
    """Build the sdist, then the wheel from the sdist; return the wheel.

    Timestamps in the files are the commit's, so that a second build gives the same bytes.
    """
    shutil.rmtree(DIST, ignore_errors=True)
    epoch = run("git", "log", "-1", "--format=%ct")
    run(
        sys.executable,
        "-m",
        "build",
        "--installer",
        "uv",
        "--outdir",
        DIST,
        SOURCE_DATE_EPOCH=epoch,
    )
    run(*UV, "tool", "run", TWINE, "check", "--strict", *DIST.iterdir())
    (wheel,) = DIST.glob("*.whl")
    return wheel


def find_python(version: str) -> str | None:
    """Return an installed interpreter of a Python version, or None if there is none."""
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if found:
        return str(found[-1])
    command = [*UV, "python", "find", "--no-python-downloads", version]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def try_wheel(wheel: Path, python: str, target: Path) -> Path:
    """Install and try the wheel in an empty environment; return that environment's Python."""
    own = target / "bin" / "python"
    run(*UV, "venv", "--quiet", "--python", python, target)
    run(*UV, "pip", "install", "--quiet", "--python", own, wheel)
    work = target / "work"
    work.mkdir()
    clean = {"PYTHONPATH": "", "MDSTORM_CACHE_DIR": str(work / "cache")}
    run(own, "-W", "error", "-c", _TRY, cwd=work, **clean)
    command = target / "bin" / "mdstorm"
    for words in (["--version"], ["verify", "rows"], ["migrate", "."], ["doctor"]):
        run(command, *words, cwd=work, **clean)
    return own


def write_bill(python: Path, target: Path) -> None:
    """List the packages of an installation without extras in CycloneDX's JSON format."""
    command = ("cyclonedx-py", "environment", "--output-reproducible", "--of", "JSON")
    project = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library")
    run(*UV, "tool", "run", "--from", CYCLONEDX, *command, *project, "-o", target, python)


def pack_site(version: str) -> bool:
    """Pack the site built by `make docs`; return whether there is one."""
    site = ROOT / "docs" / "_build" / "html"
    if not (site / "index.html").exists():
        return False
    with tarfile.open(DIST / f"mdstorm-{version}-docs.tar.gz", "w:gz") as archive:
        archive.add(site, f"mdstorm-{version}-docs")
    return True


def write_checksums() -> list[str]:
    """Write the SHA-256 of every file and return the lines."""
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}"
        for file in sorted(DIST.iterdir())
    ]
    (DIST / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lines


def main() -> None:
    """Make the release, then list its contents and what was left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uncommitted", action="store_true", help="allow uncommitted changes")
    version = version_of_code()
    check_changelog(version)
    if not parser.parse_args().uncommitted:
        check_nothing_is_uncommitted()
    wheel = build()
    print(f"built {wheel.name}, and checked it with twine", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        last = None
        for wanted in PYTHONS:
            python = find_python(wanted)
            if python is None:
                print(f"not tried on Python {wanted}, which is not installed here", flush=True)
                continue
            last = try_wheel(wheel, python, Path(directory, wanted))
            print(f"works in an empty environment of Python {wanted}", flush=True)
        if last is None:
            raise SystemExit(f"error: none of Python {', '.join(PYTHONS)} is installed here")
        write_bill(last, DIST / f"mdstorm-{version}.cdx.json")
    run(sys.executable, ROOT / "scripts" / "list_licences.py")
    if not pack_site(version):
        print("the site is not included: run `make docs` first")
    print(f"mdstorm {version}, made {datetime.now(timezone.utc):%Y-%m-%d}, in dist/:")
    print("\n".join(write_checksums()))


if __name__ == "__main__":
    main()
