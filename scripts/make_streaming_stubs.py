"""Write the stubs of `mdstorm_backend.streaming`, whose modules are made from a table.

Each module is a folder with an ``__init__.pyi``. Pyright would warn about a missing source for a
file ``shuffle.pyi`` without a ``shuffle.py``, but does not for such a folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from mdstorm_backend.mosaic.mirror import ABSENT, MODULES, exports, submodules

PACKAGE = ABSENT.package
TARGET = Path(__file__).parents[1] / "mds_backend" / PACKAGE.replace(".", "/")


def stub(path: str) -> str:
    """Return the text of a module's stub, given the module's path within the package."""
    module = f"{PACKAGE}.{path}".rstrip(".")
    theirs = f"{ABSENT.library}.{path}".rstrip(".")
    names = MODULES[path]
    lines = [f'"""{theirs}: written by scripts/make_streaming_stubs.py."""', ""]
    lines += [f"from {home} import {name} as {name}" for name, home in names.items()]
    below = [name for name in submodules(path) if name not in names]
    lines += [f"from {module} import {name} as {name}" for name in below]
    if not path:
        lines += ["", "__version__: str"]
    listed = "".join(f'    "{name}",\n' for name in exports(path))
    return "\n".join([*lines, "", f"__all__ = [\n{listed}]", ""])


def stubs() -> dict[Path, str]:
    """Return the text of each stub, by its path within the package's folder."""
    return {Path(*path.split("."), "__init__.pyi"): stub(path) for path in MODULES}


def main() -> None:
    """Replace all stubs."""
    for folder in filter(Path.is_dir, TARGET.iterdir()):
        shutil.rmtree(folder)
    for path, text in stubs().items():
        (TARGET / path).parent.mkdir(parents=True, exist_ok=True)
        (TARGET / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
