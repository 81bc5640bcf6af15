"""Write ``dist/LICENCES.md``: the licences of the distributions that mdstorm requires.

They are read from the metadata of the installed packages, as in pip. Run this script in the
environment of ``make test``, which has all extras.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TypeAlias

import tomllib

Rows: TypeAlias = dict[str, dict[str, str]]

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "dist" / "LICENCES.md"

_BASE = "always"
#: Extras that are not for users, or that combine other extras.
_LEFT_OUT = frozenset({"all", "dev", "docs"})
#: Packages that others replace in this environment: tensorflow is replaced by its CPU-only build.
_INSTEAD = {"tensorflow": "tensorflow-cpu"}
#: Packages that are not installed where this page is generated: tomli is only required on Python
#: 3.10, and no test uses ocifs, which requires all of Oracle's SDK.
_ELSEWHERE = {"tomli": "MIT", "ocifs": "UPL-1.0"}
#: SPDX identifiers for the values of classifiers and free-text fields.
_SPDX = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache-2.0 license": "Apache-2.0",
    "bsd license": "BSD",
    "bsd 3-clause license": "BSD-3-Clause",
    "http://www.apache.org/licenses/license-2.0": "Apache-2.0",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
}


def required() -> Rows:
    """Return mdstorm's requirements: for each extra, the licence of each distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = {_BASE: project["dependencies"], **project["optional-dependencies"]}
    names = {
        extra: [re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements]
        for extra, requirements in groups.items()
        if extra not in _LEFT_OUT
    }
    return {extra: {name: licence_of(name) for name in each} for extra, each in names.items()}


def licence_of(name: str) -> str:
    """Return the licence that a distribution declares.

    This is its SPDX expression, else its classifiers, else the first line of its licence field.
    """
    try:
        declared = metadata(_INSTEAD.get(name, name))
    except PackageNotFoundError:
        return _ELSEWHERE[name]
    # Of a missing field, `importlib_metadata` raises KeyError, once a library has imported it.
    if expression := declared.get("License-Expression"):
        return str(expression)
    classified = [
        value.rpartition(" :: ")[2]
        for value in declared.get_all("Classifier") or ()
        if value.startswith("License :: ") and value.count(" :: ") > 1
    ]
    texts = classified or [str(declared.get("License") or "not declared").strip().splitlines()[0]]
    return ", ".join(sorted({_SPDX.get(text.lower(), text) for text in texts}))


def page(rows: Rows) -> str:
    """Return the page."""
    lines = [
        "# Licences",
        "",
        "mdstorm is published under the Apache License 2.0. The packages that it requires are",
        "installed separately, under the licences below; the packages that these require are not",
        "listed.",
        "",
        "| extra | package | licence |",
        "|---|---|---|",
    ]
    for extra in sorted(rows, key=lambda name: (name != _BASE, name)):
        shown = extra if extra == _BASE else f"`{extra}`"
        lines += [f"| {shown} | {name} | {rows[extra][name]} |" for name in sorted(rows[extra])]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(page(required()), encoding="utf-8")
