"""The pages for people: their links lead somewhere, what they name is there, and all has a place.

That each name of a public module is on its page of the API is checked by `make docs`.
"""

import ast
import importlib
import pkgutil
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

import mdstorm
import mdstorm.errors
import mdstorm_migrate
from mdstorm._petastorm_names import ABSENT
from mdstorm.cli import main
from mdstorm_backend.drop_in import streaming

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "examples" / "README.md",
]
#: Where the files stand that `ARCHITECTURE.md` names; 123 stands for a number that is not taken.
FOLDERS = [ROOT / name for name in ("compat", "docs", "mds_backend", "migrate", "scripts", "tests")]


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchor_of(heading: str) -> str:
    """Return the name of a heading, as hosts of Markdown form it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def relative_links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [target for target in targets if "://" not in target]


@pytest.mark.parametrize(
    ("page", "target"),
    [(page, target) for page in PAGES for target in relative_links(page)],
    ids=lambda value: value.name if isinstance(value, Path) else value,
)
def test_relative_links_lead_somewhere(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    assert found.exists()
    headings = re.findall(r"^#+ +(.+)$", prose(found), re.M) if anchor else []
    assert not anchor or anchor in map(anchor_of, headings)


def commands() -> list[str]:
    """Return the calls of mdstorm in the blocks that show a terminal."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)
    lines = re.findall(r"^\$ mdstorm (.+)$", "".join(blocks), re.M)
    return sorted({line.partition(" #")[0].strip() for line in lines})


@pytest.mark.parametrize("command", commands())
def test_commands_and_their_options_are_there(command: str) -> None:
    name, *arguments = shlex.split(command)
    found = main.get_command(click.Context(main), name)
    assert found is not None
    found.make_context(name, arguments, resilient_parsing=True)  # refuses unknown options


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_first_pages_tell_the_figures_of_the_benchmarks(page: str) -> None:
    table = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    rows = re.findall(r"torch (in order|shuffled).*st BatchedDataLoader.* ([\d.]+) . \|", table)
    figures = dict(reversed(rows))  # of MDS, which come first
    text = prose(ROOT / page).replace("\n", " ")
    assert f"{figures['in order']} times as fast as Petastorm's" in text
    assert f"shuffled {figures['shuffled']} times" in text


@pytest.mark.parametrize("page", ["docs/index.md", "docs/install.md", "docs/versions.md"])
def test_pages_for_strangers_name_this_version(page: str) -> None:
    minor = mdstorm.__version__.rpartition(".")[0]
    assert re.search(rf"(mdstorm|version) {re.escape(minor)}\b", prose(ROOT / page))


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "quickstart").glob("*.md")))
def test_quick_starts_refer_to_the_page_that_says_how_to_install(page: Path) -> None:
    assert "../install.md" in relative_links(page)


def test_links_of_the_readme_become_absolute_or_text() -> None:
    absolute_links = runpy.run_path(str(ROOT / "scripts" / "readme_links.py"))["absolute_links"]
    text = "![a plot](docs/a.svg), [types](docs/types.md#nulls), [below](#use), [x](https://x.org)"
    assert absolute_links(text, "https://git.example/us/it/", "1.2") == (
        "![a plot](https://git.example/us/it/raw/v1.2/docs/a.svg), "
        "[types](https://git.example/us/it/blob/v1.2/docs/types.md#nulls), "
        "[below](#use), [x](https://x.org)"
    )
    assert absolute_links(text, None, "1.2") == ("a plot, types, [below](#use), [x](https://x.org)")


def test_the_benchmarks_are_those_of_the_last_run() -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "page.py"))
    for written, expected in (("PAGE", "page"), ("IMAGE", "image")):
        assert script[written].read_text("utf-8") == script[expected](), "run benchmarks/page.py"


def test_the_architecture_names_what_is_there() -> None:
    named = re.findall(r"`([\w/.]+(?:/|\.py|\.toml|\.md))`", prose(ROOT / "ARCHITECTURE.md"))
    there = [
        f"/{path.relative_to(ROOT)}{'/' * path.is_dir()}"
        for folder in FOLDERS
        for path in [folder, *folder.rglob("*")]
    ]
    assert len(named) > 40
    assert not [n for n in named if not any(p.endswith(f"/{n}") for p in there) and "123" not in n]


@pytest.mark.newest
def test_the_page_of_licences_has_what_the_installed_packages_declare() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "list_licences.py"))
    rows = script["required"]()
    assert {"always", "spark", "torch", "tf"} <= rows.keys()
    assert "Apache-2.0" in rows["always"]["pyarrow"]
    assert "not declared" not in {licence for row in rows.values() for licence in row.values()}
    written = script["TARGET"].read_text(encoding="utf-8")
    assert written == script["page"](rows), "run scripts/list_licences.py"


#: The page about errors quotes texts of messages.
TROUBLES = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
#: Stands for a value in a message.
GAP = "…"


def texts_of(node: ast.AST) -> list[str]:
    """Return the texts below a node, with a gap in the place of each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        parts = [p.value if isinstance(p, ast.Constant) else GAP for p in node.values]
        return ["".join(map(str, parts))]
    return []


@pytest.fixture(scope="module")
def texts() -> str:
    files = [
        p for name in ("compat", "mds_backend", "migrate") for p in (ROOT / name).rglob("*.py")
    ]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    return "\n".join(text for node in nodes for text in texts_of(node))


def test_each_error_has_a_section() -> None:
    sections = re.findall(r"^### (\w+Error)$", TROUBLES, re.M)
    assert sorted(sections) == sorted(mdstorm.errors.__all__)


@pytest.mark.parametrize("quote", re.findall(r"^- `([^`]+)`", TROUBLES, re.M))
def test_what_is_quoted_is_a_message(quote: str, texts: str) -> None:
    parts = [re.escape(part.strip()) for part in quote.split(GAP) if part.strip(" .,:()'\"")]
    assert re.search(r"[^\n]*?".join(parts), texts)


def sections() -> dict[str, str]:
    """Return the text of each section about names that mdstorm lacks, by its anchor."""
    text = (ROOT / ABSENT.page).read_text("utf-8")
    part = text.partition("## What mdstorm lacks\n")[2].partition("\n## ")[0]
    pieces = re.split(r"^### (.+)$", part, flags=re.M)[1:]
    return dict(zip(map(anchor_of, pieces[::2]), pieces[1::2], strict=True))


def named(text: str) -> set[str]:
    """Return the last parts of the names of Petastorm in the first paragraph of a section."""
    first = text.strip().partition("\n\n")[0]
    return {name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", first)}


def test_each_group_of_names_has_a_section() -> None:
    assert sections().keys() == ABSENT.sections.keys()


@pytest.mark.parametrize("section", ABSENT.sections)
def test_a_section_names_what_the_table_says(section: str) -> None:
    in_table = {name.rpartition(".")[2] for name in ABSENT.sections[section]}
    modules = {name.rpartition(".")[0].rpartition(".")[2] for name in ABSENT.sections[section]}
    found = named(sections()[section])
    assert in_table <= found
    assert found <= in_table | modules


def _marked(name: str) -> Any:
    # To look there imports TensorFlow.
    return pytest.param(name, marks=pytest.mark.long) if name.startswith("tf_utils.") else name


@pytest.mark.parametrize("name", [_marked(name) for name in ABSENT.names])
def test_a_name_of_the_table_is_absent(name: str) -> None:
    parent, _, last = f"mdstorm.{name}".rpartition(".")
    try:
        assert not hasattr(importlib.import_module(parent), last)
        importlib.import_module(f"mdstorm.{name}")
    except ModuleNotFoundError:
        return
    pytest.fail(f"{name} is there")


def test_what_is_part_of_an_absent_module_has_its_section() -> None:
    assert (
        ABSENT.replacement("petastorm.hdfs.namenode.HdfsConnector")
        == f"{ABSENT.page}#name-nodes-of-hdfs"
    )
    assert ABSENT.replacement("petastorm.reader.make_reader") is None


API = sorted((ROOT / "docs" / "api").glob("*.md"))
#: Commands, which have a page of their own: `docs/commands.md`.
COMMANDS = re.compile(r"mdstorm\.(cli|__main__)\b")


def listed() -> set[str]:
    texts = [page.read_text("utf-8") for page in API]
    return {name for text in texts for name in re.findall(r"^\.\. automodule:: (\S+)$", text, re.M)}


def exports(module: pkgutil.ModuleInfo) -> bool:
    """Return whether a module defines what its `__all__` lists, or re-exports it from elsewhere."""
    assert hasattr(module.module_finder, "path")
    below = Path(module.module_finder.path, module.name.rpartition(".")[2])
    file = below / "__init__.py" if module.ispkg else below.with_suffix(".py")
    return "__all__" in file.read_text("utf-8")


def test_every_module_of_the_api_has_a_place() -> None:
    modules = [m for m in pkgutil.walk_packages(mdstorm.__path__, "mdstorm.") if "._" not in m.name]
    public = {m.name for m in modules if exports(m) and not COMMANDS.match(m.name)}
    # `mdstorm.spark` exports names of its only module.
    assert public - {"mdstorm.spark"} <= listed()
    assert {"mdstorm", "mdstorm_backend", mdstorm_migrate.__name__} <= listed()


def test_every_name_of_the_modules_of_streaming_has_a_place() -> None:
    there: set[str] = set()
    for module in listed():
        if module.startswith("mdstorm_backend"):
            there |= names_of(module)
    for path in streaming.MODULES:
        assert {*streaming.exports(path)} <= there | {"text", "vision"}, path


def names_of(module: str) -> set[str]:
    """Return what `__all__` lists, without importing the module."""
    if module.startswith(streaming.ABSENT.package):
        return {*streaming.exports(module.removeprefix(streaming.ABSENT.package).removeprefix("."))}
    below = ROOT / "mds_backend" / Path(*module.split("."))
    file = below / "__init__.py" if below.is_dir() else below.with_suffix(".py")
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_the_overview_links_every_page() -> None:
    overview = (ROOT / "docs" / "api" / "index.md").read_text("utf-8")
    linked = set(re.findall(r"\((\w+\.md)\)", overview))
    assert {page.name for page in API} == {"index.md", *linked}
