"""Projects as texts: the files of one behind each other, and what is installed of it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml  # which LibCST requires

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
    options = ["--offline", "--no-index", "--find-links", str(wheels), "--no-config"]
    if what == "lock":
        _run([uv, "lock", *options[:4]], root)
        return (root / "uv.lock").read_text()
    python = ["--python-version", "3.11"]
    return _run([uv, "pip", "compile", str(listed(root, what)), *python, *options, "-q"], root)


def listed(root: Path, what: str) -> Path:
    """Return the file whose requirements are those of a project, as pip has them."""
    kind, _, name = what.partition(" ")
    path = root / name
    if kind == "uv":
        return path
    if kind == "setup":
        lines = _of_setup(root)
    elif kind == "words":
        lines = _words(path.read_text())
    else:
        lines = _of_conda(path.read_text())
    (path.parent / "resolved.in").write_text("\n".join(lines) + "\n")
    return path.parent / "resolved.in"


def _run(command: list[str], root: Path) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _words(text: str) -> list[str]:
    found = []
    for tool, start, stop in install_commands(text):
        command = text[start:stop].replace("\\\n", " ")
        if "," in command.partition("install")[0]:
            continue  # a list of strings
        words = shlex.split(command)
        if tool == "pip":
            found += [one for one in words[words.index("install") + 1 :] if _is_requirement(one)]
    return found


def _is_requirement(word: str) -> bool:
    return re.match(r"[A-Za-z]", word) is not None and not word.endswith(".txt")


def _of_setup(root: Path) -> list[str]:
    """Return what setuptools says that a project requires."""
    command = [sys.executable, "setup.py", "-q", "egg_info"]
    subprocess.run(command, cwd=root, capture_output=True, check=True)
    (found,) = root.glob("*.egg-info/requires.txt")
    return found.read_text().partition("\n\n[")[0].splitlines()


def _of_conda(text: str) -> list[str]:
    """Return the items of an environment as pip would have them, Python itself left out."""
    found = []
    for item in yaml.safe_load(text)["dependencies"]:
        if isinstance(item, dict):
            found += [one for one in item["pip"] if not one.startswith("--")]
            continue
        name = item.rpartition("::")[2].replace("pytorch", "torch")
        if not re.match(r"(python|pip|torch)\b", name):
            # One equals sign, or a space, stands before any version that begins so.
            plain = re.sub(r"(?<![=<>~!])=(?!=)(.*)", r"==\1.*", name)
            found.append(re.sub(r"[ ]+(?=\d)", "==", plain))
    return found
