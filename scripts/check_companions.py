"""Compare what `mdstorm migrate` says of other distributions with their metadata on PyPI.

    python scripts/check_companions.py [NAME ...]

For each of `COMPANIONS` in `mdstorm_migrate.packaging.bounds`, uv looks for the first version that
installs beside mdstorm, built for the lowest Python. It needs a network, so run it by hand; it
takes minutes. The exit code is 1 if a table differs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "migrate")]

from tests.migrate.projects.index import make_index  # noqa: E402

from mdstorm_migrate.packaging.bounds import COMPANIONS, PYTHON, SINCE  # noqa: E402

TIMEOUT_S = 240


def main() -> int:
    """Compare, and return the exit code."""
    wanted = set(sys.argv[1:])
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        make_index(Path(folder), stubs=False)
        for extra, name, expected in entries():
            if wanted and name not in wanted:
                continue
            found = first_beside(Path(folder), extra, name)
            differing += found != expected
            print(f"{name}: {expected}{'' if found == expected else f', but PyPI says {found}'}")
    return 1 if differing else 0


def entries() -> Iterator[tuple[str, str, str]]:
    """Yield the entries of the table: extra, name, version."""
    for extra, versions in COMPANIONS.items():
        for name, version in versions.items():
            yield extra, name, version


def first_beside(folder: Path, extra: str, name: str) -> str | None:
    """Return the first version that uv installs beside mdstorm; None if it finds none."""
    lines = [f"mdstorm[{extra}]" if extra else "mdstorm", f"{name}>={SINCE.get(name, '0')}"]
    (folder / "in.txt").write_text("\n".join(lines) + "\n")
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    command = [uv, "pip", "compile", str(folder / "in.txt"), "--resolution", "lowest-direct"]
    command += ["--python-version", PYTHON, "--only-binary", ":all:", "--find-links", str(folder)]
    command += ["--no-config", "--quiet", "--no-annotate", "--no-header"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    match = re.search(rf"^{re.escape(name)}==(\S+)", done.stdout, re.MULTILINE | re.IGNORECASE)
    return match[1] if match else None


if __name__ == "__main__":
    sys.exit(main())
