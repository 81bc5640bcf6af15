"""Environments in which tests run `mdstorm doctor` as a separate process."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import mdstorm
import mdstorm_backend
import mdstorm_migrate

_CODE = [Path(package.__file__).parents[1] for package in (mdstorm, mdstorm_backend)]
_CODE.append(Path(mdstorm_migrate.__file__).parents[1])


class Setup:
    """A copy of this test run's environment, whose parts can be broken one by one.

    Its libraries are links to this Python's libraries, so each can be removed or replaced.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.libraries = root / "libraries"
        self.programs = root / "programs"
        self.directory = root / "work"
        for made in (self.libraries, self.programs, self.directory):
            made.mkdir()
        for installed in Path(sysconfig.get_path("purelib")).iterdir():
            if installed.suffix != ".pth":
                (self.libraries / installed.name).symlink_to(installed)
        kept = {"PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR"}
        self.variables = {name: value for name, value in os.environ.items() if name in kept}
        self.variables |= {
            "PATH": f"{self.programs}{os.pathsep}{self.variables['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, [*_CODE, self.libraries])),
            "PYSPARK_PYTHON": self.program("worker", f'exec {sys.executable} -S "$@"'),
            "MDSTORM_CACHE_DIR": str(root / "shards"),
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def remove(self, library: str, distribution: str = "") -> None:
        """Remove a library together with its metadata."""
        patterns = [library, f"{library}-*.dist-info", f"{distribution or library}-*.dist-info"]
        for pattern in patterns:
            for link in self.libraries.glob(pattern):
                link.unlink()

    def add(self, name: str, version: str, *requires: str) -> None:
        """Install a distribution, replacing any other version of it."""
        for link in self.libraries.glob(f"{name}-*.dist-info"):
            link.unlink()
        self.add_installation(name, version, *requires)

    def add_installation(self, name: str, version: str, *requires: str) -> None:
        """Install a distribution without removing its other versions."""
        described = self.libraries / f"{name}-{version}.dist-info"
        described.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
        (described / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]))

    def program(self, name: str, *lines: str) -> str:
        """Put a program on the PATH and return its path."""
        path = self.programs / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)
        return str(path)

    def set(self, **variables: object) -> None:
        """Set environment variables."""
        self.variables |= {name: str(value) for name, value in variables.items()}

    def start(self, *options: str, **how: Any) -> subprocess.Popen[str]:
        """Start `mdstorm doctor`."""
        command = (sys.executable, "-S", "-m", "mdstorm", "doctor", "--format", "json", *options)
        return subprocess.Popen(
            command,
            env=self.variables,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **how,
        )

    def doctor(self, *options: str) -> list[dict[str, str]]:
        """Run `mdstorm doctor` and return its findings."""
        process = self.start(*options)
        out, err = process.communicate()
        assert "Traceback" not in err + out
        found: list[dict[str, str]] = json.loads(out)["findings"]
        has_problems = any(one["status"] == "problem" for one in found)
        assert process.returncode == (1 if has_problems else 0), err
        return found
