"""The API pages list every public module.

`make docs`, which builds the site, checks that each of a module's names is on its page.
"""

import ast
import re
from pathlib import Path

import mdstorm_migrate
from mdstorm_backend.mosaic.mirror import ABSENT, MODULES
from mdstorm_backend.mosaic.mirror import exports as exports_of

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))
#: Commands, which are documented separately in `docs/commands.md`.
COMMANDS = re.compile(r"mdstorm\.(cli|__main__)\b")


def listed() -> set[str]:
    texts = [page.read_text("utf-8") for page in PAGES]
    return {name for text in texts for name in re.findall(r"^\.\. automodule:: (\S+)$", text, re.M)}


def public() -> set[str]:
    """Return the modules of `mdstorm` that have an `__all__`, without importing them."""
    modules = set()
    for file in (ROOT / "compat" / "mdstorm").rglob("*.py"):
        if "__all__" in file.read_text("utf-8"):
            parts = file.relative_to(ROOT / "compat").with_suffix("").parts
            modules.add(".".join(part for part in parts if part != "__init__"))
    return {name for name in modules if "._" not in name and not COMMANDS.match(name)}


def test_api_pages_list_every_public_module() -> None:
    # `mdstorm.spark` exports the names of its only module.
    assert public() - {"mdstorm.spark"} <= listed()
    assert {"mdstorm", "mdstorm_backend", mdstorm_migrate.__name__} <= listed()


def test_api_pages_list_every_mirrored_streaming_name() -> None:
    there: set[str] = set()
    for module in listed():
        if module.startswith("mdstorm_backend"):
            there |= names_of(module)
    for path in MODULES:
        assert {*exports_of(path)} <= there | {"text", "vision"}, path


def names_of(module: str) -> set[str]:
    """Return what `__all__` lists, without importing the module."""
    if module.startswith(ABSENT.package):
        return {*exports_of(module.removeprefix(ABSENT.package).removeprefix("."))}
    below = ROOT / "mds_backend" / Path(*module.split("."))
    file = below / "__init__.py" if below.is_dir() else below.with_suffix(".py")
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_api_overview_links_to_every_api_page() -> None:
    overview = (ROOT / "docs" / "api" / "index.md").read_text("utf-8")
    linked = set(re.findall(r"\((\w+\.md)\)", overview))
    assert {page.name for page in PAGES} == {"index.md", *linked}
