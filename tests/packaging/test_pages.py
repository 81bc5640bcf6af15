"""Links on the documentation pages work, and the files and names that they mention exist."""

import re
import runpy
import shlex
from functools import cache
from pathlib import Path

import click
import pytest
from tests.packaging.pages import ROOT, SITE, anchor_of

import mdstorm
from mdstorm.cli import main

PAGES = [*sorted(ROOT.glob("*.md")), *SITE, ROOT / "examples" / "README.md"]
of_each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
#: Directories with the files that `ARCHITECTURE.md` mentions. In names, `1nn` is a placeholder.
FOLDERS = [ROOT / name for name in ("compat", "docs", "mds_backend", "migrate", "scripts", "tests")]


@cache
def prose(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@cache
def anchors(page: Path) -> set[str]:
    return {anchor_of(heading) for heading in re.findall(r"^#+ +(.+)$", prose(page), re.M)}


def relative_links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [target for target in targets if "://" not in target]


@of_each_page
def test_relative_links_have_targets(page: Path) -> None:
    for target in relative_links(page):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


@of_each_page
def test_link_texts_are_not_file_names(page: Path) -> None:
    texts = re.findall(r"\[([^\[\]]+)\]\([^)\s]+\)", prose(page))
    assert not [text for text in texts if text.strip("`").endswith(".md")]


@pytest.mark.parametrize("page", SITE, ids=lambda page: page.name)
def test_code_blocks_of_site_name_their_language(page: Path) -> None:
    """The site highlights blocks without a language as Python."""
    blocks = re.findall(r"^(`{3,})([^\n]*)$.*?^\1$", page.read_text(encoding="utf-8"), re.M | re.S)
    assert all(language for _, language in blocks)


def commands() -> list[str]:
    """Return the mdstorm commands in the console blocks."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)
    lines = re.findall(r"^\$ mdstorm (.+)$", "".join(blocks), re.M)
    return sorted({line.partition(" #")[0].strip() for line in lines})


@pytest.mark.parametrize("command", commands())
def test_commands_on_pages_exist_with_their_options(command: str) -> None:
    name, *arguments = shlex.split(command)
    found = main.get_command(click.Context(main), name)
    assert found is not None
    found.make_context(name, arguments, resilient_parsing=True)  # rejects unknown options


def test_readme_has_fewer_than_120_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


def test_readme_begins_with_a_short_program_and_its_output() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40]
    first, last = lines.index("```python"), lines.index("```")
    assert last - first <= 16
    assert "```text" in lines[last:]


def test_changelog_has_at_most_8_kilobytes() -> None:
    assert (ROOT / "CHANGELOG.md").stat().st_size <= 8192


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_first_pages_quote_figures_from_benchmark_page(page: str) -> None:
    table = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    rows = re.findall(r"torch (in order|shuffled).*st BatchedDataLoader.* ([\d.]+) . \|", table)
    figures = dict(reversed(rows))  # keeps only the first row of each kind, the one for MDS
    text = prose(ROOT / page).replace("\n", " ")
    assert f"{figures['in order']} times as fast as Petastorm's" in text
    assert f"{figures['shuffled']} times as fast when shuffled" in text


@pytest.mark.parametrize("page", ["docs/index.md", "docs/install.md", "docs/versions.md"])
def test_pages_for_new_users_state_this_version(page: str) -> None:
    minor = mdstorm.__version__.rpartition(".")[0]
    assert re.search(rf"(mdstorm|Version) {re.escape(minor)}\b", prose(ROOT / page))


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "quickstart").glob("*.md")))
def test_quick_starts_link_to_the_install_page(page: Path) -> None:
    assert "../install.md" in relative_links(page)


def test_readme_links_become_absolute_or_are_replaced_by_text() -> None:
    absolute_links = runpy.run_path(str(ROOT / "scripts" / "readme_links.py"))["absolute_links"]
    text = "![a plot](docs/a.svg), [types](docs/types.md#nulls), [below](#use), [x](https://x.org)"
    assert absolute_links(text, "https://git.example/us/it/", "1.2") == (
        "![a plot](https://git.example/us/it/raw/v1.2/docs/a.svg), "
        "[types](https://git.example/us/it/blob/v1.2/docs/types.md#nulls), "
        "[below](#use), [x](https://x.org)"
    )
    assert absolute_links(text, None, "1.2") == ("a plot, types, [below](#use), [x](https://x.org)")


def test_benchmark_page_shows_results_of_the_last_run() -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "page.py"))
    for written, expected in (("PAGE", "page"), ("IMAGE", "image")):
        assert script[written].read_text("utf-8") == script[expected](), "run benchmarks/page.py"


def test_files_mentioned_in_architecture_exist() -> None:
    named = re.findall(r"`([\w/.]+(?:/|\.py|\.toml|\.md))`", prose(ROOT / "ARCHITECTURE.md"))
    there = [
        f"/{path.relative_to(ROOT)}{'/' * path.is_dir()}"
        for folder in FOLDERS
        for path in [folder, *folder.rglob("*")]
    ]
    assert len(named) > 20
    assert not [n for n in named if not any(p.endswith(f"/{n}") for p in there) and "1nn" not in n]


@pytest.mark.newest
def test_licences_of_requirements_are_declared_by_installed_packages() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "list_licences.py"))
    rows = script["required"]()
    assert {"always", "spark", "torch", "tf"} <= rows.keys()
    assert "Apache-2.0" in rows["always"]["pyarrow"]
    assert "not declared" not in {licence for row in rows.values() for licence in row.values()}
    assert "\n| always | pyarrow | Apache-2.0" in script["page"](rows)
