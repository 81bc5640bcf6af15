"""Check a site that `make docs` has made: links, names, what a search finds, the first page."""

from __future__ import annotations

import ast
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util.inventory import InventoryFile

ROOT = Path(__file__).parents[1]
#: Bytes that a reader's first page may take, with all that it loads.
FIRST_PAGE_BYTES = 200_000
#: What people search for; `docs/conf.py` has the page of each.
_SEARCHED = ("shuffle", "cache", "batch size", "float32", "dbfs")
#: Attributes with the files that a page loads, and with the places that it leads to.
_LOADED = {("link", "href"), ("script", "src"), ("img", "src")}


class Page(HTMLParser):
    """What a page loads, where it leads, and which places it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loaded: set[str] = set()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes of a tag."""
        values = {name: value or "" for name, value in attrs}
        self.places |= {values[name] for name in ("id", "name") if values.get(name)}
        is_page = tag == "link" and values.get("rel") not in ("stylesheet", "icon")
        for name in ("href", "src"):
            if name in values and (tag, name) in _LOADED and not is_page:
                self.loaded.add(values[name])
            elif name in values and not is_page:
                self.links.add(values[name])

    def bytes(self) -> int:
        """Return how many bytes the page and what it loads take, without compression."""
        files = {self.path}
        for url in self.loaded:
            files.add((self.path.parent / urlsplit(url).path).resolve())
        return sum(file.stat().st_size for file in files)


def broken_links(pages: dict[Path, Page]) -> list[str]:
    """Return the links, and the files to load, that lead nowhere."""
    found = []
    for path, page in pages.items():
        for url in page.links | page.loaded:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                if url in page.loaded:
                    found.append(f"{path}: loads {url} from elsewhere")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{path}: {url} is not there")
            elif target in pages and parts.fragment not in {"", *pages[target].places}:
                found.append(f"{path}: {url} has no such place")
    return found


def public_names() -> set[str]:
    """Return the names that the modules on the pages of the API export."""
    names = set()
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        text = page.read_text("utf-8")
        directive = r"^\.\. automodule:: (\S+)\n((?:   :.+\n)*)"
        for module, options in re.findall(directive, text, re.M):
            elsewhere = re.findall(r"\w+", options.partition(":exclude-members:")[2])
            left = set(exported(module)) - {"__version__", *elsewhere}
            names |= {f"{module}.{name}" for name in left}
    return names


def exported(module: str) -> list[str]:
    """Return the ``__all__`` of a module, which is not imported."""
    below = Path(*module.split("."))
    candidates = [
        ROOT / package / file
        for package in ("compat", "mds_backend", "migrate")
        for file in (below.with_suffix(".py"), below / "__init__.py", below / "__init__.pyi")
    ]
    path = next(filter(Path.exists, candidates))
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def words_without_how_to(folder: Path) -> list[str]:
    """Return words that a search of the site answers with something else than a how-to first."""
    text = (folder / "searchindex.js").read_text("utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    return [
        word
        for word in _SEARCHED
        if not any(
            is_main and index["docnames"][page].startswith("how-to/")
            for page, _, is_main in index["indexentries"].get(word, [])
        )
    ]


def main(folder: Path) -> int:
    """Print what is wrong, and return an exit code."""
    pages = {path: Page(path) for path in sorted(folder.resolve().rglob("*.html"))}
    problems = broken_links(pages)

    inventory = InventoryFile.loads((folder / "objects.inv").read_bytes(), uri="")
    documented = {name for kind in inventory.data.values() for name in kind}
    problems += [f"{name} is not in the API reference" for name in public_names() - documented]

    problems += [f"{word!r} finds no how-to first" for word in words_without_how_to(folder)]

    size = pages[(folder / "index.html").resolve()].bytes()
    if size > FIRST_PAGE_BYTES:
        problems.append(f"the first page takes {size:,} bytes, more than {FIRST_PAGE_BYTES:,}")
    for problem in sorted(problems):
        print(problem)
    if not problems:
        print(f"{len(pages)} pages; the first one takes {size:,} bytes. Open {folder}/index.html")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
