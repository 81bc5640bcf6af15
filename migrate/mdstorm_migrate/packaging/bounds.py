"""The versions that mdstorm needs, and which pins leave none of them.

The tables follow ``pyproject.toml``; a test compares them. A pin conflicts if its upper end lies
below a lower bound: that is all that can be told without an index of packages.
"""

from __future__ import annotations

import re

PYTHON = "3.10"
#: The first Databricks Runtime with long support that has it, and Spark 3.5.
RUNTIME = "14.3"
BASE = {
    "click": "8.0.4",
    "fsspec": "2023.5.0",
    "libcst": "1.1.0",
    "numpy": "1.23.5",
    "pathspec": "0.10.3",
    "pyarrow": "14.0.1",
    "rich": "13.0.0",
}
EXTRAS = {
    "spark": {"pyspark": "3.5", "pandas": "1.5.3"},
    "torch": {"torch": "2.0.1"},
    "tf": {"tensorflow": "2.14.1"},
    "delta": {"deltalake": "1.5.0"},
    "databricks": {"databricks-sdk": "0.20.0"},
    "s3": {"s3fs": "2023.5.0"},
    "gcs": {"gcsfs": "2023.5.0"},
    "azure": {"adlfs": "2023.4.0"},
    "images": {"pillow": "9.4"},
    "turbo": {"simplejpeg": "1.6.6"},
    "xxhash": {"xxhash": "3.1"},
}
#: Distributions whose older versions ask for older ones of what stands in the tables above, or are
#: not built for that Python: the first version that goes. Of an extra, they count where that is
#: used. ``scripts/check_companions.py`` compares this with PyPI.
COMPANIONS = {
    "": {
        "awswrangler": "3.0.0",
        "flask": "2.0.0",
        "gcsfs": "2023.5.0",
        "google-cloud-bigquery": "3.4.1",
        "mlflow": "2.8.1",
        "numba": "0.56.2",
        "s3fs": "2023.5.0",
        "scikit-learn": "1.0.2",
        "scipy": "1.8.0",
        "tensorflow": "2.8.0",
        "tensorflow-cpu": "2.8.0",
        "torch": "1.11.0",
        "torchaudio": "0.11.0",
        "torchvision": "0.12.0",
        "typer": "0.4.0",
    },
    "spark": {"delta-spark": "3.0.0", "py4j": "0.10.9.7"},
    "torch": {"torchaudio": "2.0.2", "torchvision": "0.15.2"},
    "tf": {"keras": "2.14.0", "tensorboard": "2.14.0", "tensorflow-cpu": "2.14.1"},
}
#: Those whose oldest versions ask for nothing: the first that does.
SINCE = {
    "awswrangler": "2.20.1",
    "flask": "1.1.4",
    "gcsfs": "2021.4.0",
    "google-cloud-bigquery": "3.3.2",
    "mlflow": "2.0.0",
    "s3fs": "2021.4.0",
    "typer": "0.3.2",
}
#: Names that conda has for the same.
_ALIASES = {"pytorch": "torch"}
#: Distributions that have ended, with what mdstorm needs in their place.
ENDED = {"tensorflow-gpu": "tensorflow"}

_CLAUSE = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>|=|\^|~)?\s*v?([\w.*+!-]+)(?:=[^\s=,|]+)?\s*\Z")


def normalised(name: str) -> str:
    """Return the name of a distribution as indexes compare it."""
    plain = re.sub(r"[-_.]+", "-", name).lower()
    return _ALIASES.get(plain, plain)


def lower_bounds(extras: tuple[str, ...] | list[str] | set[str]) -> dict[str, str]:
    """Return what mdstorm needs with some extras: the lowest version of each distribution."""
    found = {**BASE, **COMPANIONS[""]}
    for extra in sorted(extras):
        found |= EXTRAS.get(extra, {}) | COMPANIONS.get(extra, {})
    return found


def known_names() -> list[str]:
    """Return the names of all tables, and their aliases, longest first."""
    tables = [BASE, *EXTRAS.values(), *COMPANIONS.values(), _ALIASES, ENDED]
    return sorted({name for table in tables for name in table}, key=lambda one: (-len(one), one))


def conflicts(specifier: str, lowest: str, style: str = "pip") -> bool:
    """Whether no version from `lowest` on satisfies a specifier.

    Parameters
    ----------
    specifier : str
        Such as ``>=1.19,<1.22``; in other styles ``^1.20``, ``1.20`` or ``=1.20=py38_0``.
    lowest : str
    style : {"pip", "poetry", "conda"}
        What a version without an operator means, and what ``=`` and ``~`` do.
    """
    alternatives = [part for part in specifier.strip(" ()").split("|") if part.strip()]
    return bool(alternatives) and all(
        any(_ends_below(clause, release(lowest), style) for clause in part.split(","))
        for part in alternatives
    )


def raised(specifier: str, lowest: str, name: str = "") -> str:
    """Return the specifier that takes the place of one that conflicts.

    The major version stays what it was if the lowest one has it, too: who pins NumPy 1 does not get
    NumPy 2. Nor does who pins Spark 2 get Spark 4, which needs a newer Java than Spark 3.
    """
    first = re.search(r"\d+(?:\.\d+)*", specifier)
    major = release(lowest)[0]
    is_same = first is not None and major < 1000 and _majors(specifier) == {major}
    return f">={lowest},<{major + 1}" if is_same or name == "pyspark" else f">={lowest}"


def release(version: str) -> tuple[int, ...]:
    """Return the numbers at the head of a version."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    return tuple(map(int, match[1].split("."))) if match else ()


def _majors(specifier: str) -> set[int]:
    """Return the major versions that a specifier's clauses speak of, an open end taken as such."""
    found = set()
    for clause in re.split(r"[,|]", specifier.strip(" ()")):
        match = _CLAUSE.match(clause)
        if match is None or not release(match[2]):
            continue
        numbers = release(match[2])
        is_end_of_major = match[1] == "<" and not any(numbers[1:])
        found.add(numbers[0] - is_end_of_major)
    return found


def _ends_below(clause: str, lowest: tuple[int, ...], style: str) -> bool:
    """Whether all versions that a clause admits lie below `lowest`."""
    match = _CLAUSE.match(clause)
    numbers = release(match[2]) if match else ()
    if match is None or not numbers:
        return False
    operator = match[1] or {"poetry": "=="}.get(style, "==")
    if operator == "=" or (operator == "==" and ".*" in match[2]):  # conda: 1.20 is any 1.20.x
        operator, numbers = "<", _bumped(numbers)
    elif operator == "~=":
        operator, numbers = "<", _bumped(numbers[:-1] or numbers)
    elif operator == "^":
        leading = next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)
        operator, numbers = "<", _bumped(numbers[: leading + 1])
    elif operator == "~":
        operator, numbers = "<", _bumped(numbers[:2])
    size = max(len(numbers), len(lowest))
    end, first = (one + (0,) * (size - len(one)) for one in (numbers, lowest))
    if operator == "<":
        return end <= first
    return operator in ("==", "===", "<=") and end < first


def _bumped(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers[:-1], numbers[-1] + 1)


def raised_python(specifier: str, style: str = "pip") -> str | None:
    """Return which Pythons are left of a specifier; None if it admits none that is too old.

    Upper ends above `PYTHON` stay; where nothing would be left, it becomes ``>=3.10``.
    """
    text = specifier.strip()
    lowest = release(PYTHON)
    if text == "*":
        return f">={PYTHON}"
    if conflicts(text, PYTHON, style):
        return f">={PYTHON}"
    kept, is_raised, has_lower = [], False, False
    for clause in text.split(","):
        match = _CLAUSE.match(clause)
        if match is None:
            return None
        operator, numbers = match[1] or "==", release(match[2])[:2]
        if operator in (">=", ">", "~=", "^", "~", "==", "==="):
            has_lower = True
            if numbers < lowest:
                is_raised = True
                clause = {"~=": f">={PYTHON},<4", "^": f"^{PYTHON}"}.get(operator, f">={PYTHON}")
        elif operator == "!=" and numbers < lowest:
            continue
        kept.append(clause.strip())
    if not has_lower:
        is_raised, kept = True, [f">={PYTHON}", *kept]
    return ",".join(kept) if is_raised else None
