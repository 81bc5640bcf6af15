"""Projects as texts: the files of one behind each other, and what is installed of it."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from mdstorm_migrate.packaging.commands import install_commands

CASES = Path(__file__).parent / "cases"
_FILE = re.compile(r"^=== (.+)\n", re.MULTILINE)


def names() -> list[str]:
    return sorted(path.stem for path in CASES.glob("*.txt") if not path.name.endswith(".after.txt"))


def unpack(text: str, root: Path) -> str:
    """Write the files of a project, and return what its first line says is installed."""
    head, *parts = _FILE.split(text)
    for name, content in zip(parts[::2], parts[1::2], strict=True):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return head.removeprefix("$").strip()


def pack(root: Path, before: str) -> str:
    """Return the files of a project that are not what they were."""
    _, *parts = _FILE.split(before)
    changed = []
    for name, content in zip(parts[::2], parts[1::2], strict=True):
        now = (root / name).read_text()
        if now != content:
            changed.append(f"=== {name}\n{now}")
    return "".join(changed)


def resolve(uv: str, root: Path, what: str, wheels: Path) -> str:
    """Resolve a project with uv, against the folder of wheels alone."""
    kind, _, name = what.partition(" ")
    options = ["--offline", "--no-index", "--find-links", str(wheels), "--no-config"]
    if kind == "lock":
        return _run([uv, "lock", *options[:1], "--no-index", *options[2:4]], root)
    path = root / name
    if kind == "setup":
        path = root / "resolved.in"
        path.write_text(_of_setup(root))
    elif kind == "words":
        path = root / "resolved.in"
        path.write_text("\n".join(_words((root / name).read_text())))
    elif kind == "conda":
        path = root / "resolved.in"
        path.write_text("\n".join(_of_conda((root / name).read_text())))
    python = ["--python-version", "3.11"]
    return _run([uv, "pip", "compile", str(path), *python, *options, "-q"], root)


def _run(command: list[str], root: Path) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout or (root / "uv.lock").read_text()


def _words(text: str) -> list[str]:
    found = []
    for tool, start, stop in install_commands(text):
        command = text[start:stop].replace("\\\n", " ")
        if "," in command.partition("install")[0]:
            continue  # a list of strings
        words = shlex.split(command)
        if tool == "pip":
            found += [one for one in words[words.index("install") + 1 :] if one[:1] not in "-/"]
    return found


def _of_setup(root: Path) -> str:
    """Return what setuptools says that a project requires."""
    import os
    import sys

    command = [sys.executable, "setup.py", "-q", "egg_info"]
    subprocess.run(command, cwd=root, capture_output=True, check=True, env={**os.environ})
    (found,) = root.glob("*.egg-info/requires.txt")
    return found.read_text().partition("[")[0]


def _of_conda(text: str) -> list[str]:
    """Return the items of an environment as pip would have them, Python itself left out."""
    items = re.findall(r"^[ ]*-[ ]+[\"']?([^\"'\n]+?)[\"']?$", text, re.MULTILINE)
    found = []
    for item in items:
        name = item.rpartition("::")[2].replace("pytorch", "torch")
        if re.match(r"python\b|pip\b|conda-forge$|torch$", name):
            continue
        found.append(re.sub(r"(?<![=<>~!])=(?!=)(.*)", r"==\1.*", name))
    return found
