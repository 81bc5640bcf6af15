"""Which names a library has, as a script: any environment's Python can run it.

It reads dotted paths from the standard input, and prints the versions of their packages and the
paths that are there, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version


def is_there(path: str) -> bool:
    """Whether a dotted path can be imported, or is an attribute of what can be."""
    root, *parts = path.split(".")
    found = importlib.import_module(root)
    done = root
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in parts:
            done = f"{done}.{part}"
            try:
                found = getattr(found, part)
            except (AttributeError, RuntimeError):
                try:
                    found = importlib.import_module(done)
                except ImportError:
                    return False
    return True


def main(paths: list[str]) -> dict[str, object]:
    """Return the versions of the packages that are installed, and which of the paths exist."""
    versions = {}
    for root in {path.partition(".")[0] for path in paths}:
        try:
            versions[root] = version(root.replace("_", "-"))
        except PackageNotFoundError:
            continue
    known = [path for path in paths if path.partition(".")[0] in versions]
    return {"versions": versions, "there": [path for path in known if is_there(path)]}


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
