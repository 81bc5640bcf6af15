"""Projects as texts: the files of one behind each other."""

import re
from pathlib import Path

CASES = Path(__file__).parent / "cases"
_FILE = re.compile(r"^=== (.+)\n", re.MULTILINE)


def names() -> list[str]:
    return sorted(path.stem for path in CASES.glob("*.txt") if not path.name.endswith(".after.txt"))


def unpack(text: str, root: Path) -> None:
    """Write the files of a project."""
    _, *parts = _FILE.split(text)
    for name, content in zip(parts[::2], parts[1::2], strict=True):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def pack(root: Path, before: str) -> str:
    """Return the files of a project that are not what they were."""
    _, *parts = _FILE.split(before)
    changed = []
    for name, content in zip(parts[::2], parts[1::2], strict=True):
        now = (root / name).read_text()
        if now != content:
            changed.append(f"=== {name}\n{now}")
    return "".join(changed)
