"""The pages for people: their links lead somewhere, and what they name is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
#: Where the folders stand that `ARCHITECTURE.md` names.
PACKAGES = [
    ROOT,
    ROOT / "compat" / "mdstorm",
    ROOT / "mds_backend" / "mdstorm_backend",
    ROOT / "migrate" / "mdstorm_migrate",
]


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Return the names that a page gives to its headings, as hosts of Markdown form them."""
    headings = re.findall(r"^#+ +(.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


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
    assert not anchor or anchor in anchors(found)


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 200


def test_the_architecture_names_what_is_there() -> None:
    named = re.findall(r"`([\w/.]+(?:/|\.py|\.toml|\.md))`", prose(ROOT / "ARCHITECTURE.md"))
    assert len(named) >= 20
    missing = [
        name
        for name in named
        if not any((root / name.removeprefix("compat/")).exists() for root in PACKAGES)
        and not (ROOT / name).exists()
    ]
    assert not missing
