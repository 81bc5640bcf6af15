"""Python environments that differ between hosts, at the same path."""

import sys
import venv
from pathlib import Path

from tests.slow.cluster.hosts import Host

#: The path of each host's Python, in its own ``/tmp``.
PYTHON = "/tmp/python"


def install_python(host: Host) -> None:
    """Give a host the Python environment of this process."""
    _write(host, f'exec {sys.executable} "$@"')


def install_python_without(host: Host, *packages: str) -> None:
    """Give a host a Python environment without mdstorm and without these packages."""
    environment = host.disk / "tmp" / "environment"
    if not environment.exists():
        venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    known = [Path(p) for p in sys.path if Path(p).name == "site-packages"]
    for path in [path for directory in known for path in directory.iterdir()]:
        link = site / path.name
        if path.name in packages or path.suffix == ".pth":  # a .pth file may add mdstorm
            link.unlink(missing_ok=True)
        elif not link.exists():
            link.symlink_to(path)
    _write(host, 'exec env -u PYTHONPATH /tmp/environment/bin/python "$@"')


def _write(host: Host, command: str) -> None:
    python = host.disk / PYTHON.lstrip("/")
    python.write_text(f"#!/bin/sh\n{command}\n")
    python.chmod(0o755)
