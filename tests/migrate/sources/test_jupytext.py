"""Notebooks that are scripts or pages."""

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

from mdstorm_migrate.api import migrate

HEADER = "---\njupyter:\n  kernelspec: {name: python3}\n---\n\n"
LIGHT = "# ---\n# jupyter:\n#   jupytext:\n#     x: 1\n# ---\n\n"


@pytest.mark.parametrize("start", ["# %%\n", "# %% tags=['x']\nx = 1\n", LIGHT])
@pytest.mark.parametrize("magic", ["!pip install", "%pip install -q", "!python3 -m pip install"])
def test_commands_in_comments_install_mdstorm(start: str, magic: str) -> None:
    text = f"{start}# {magic} petastorm==0.12.1 numpy\nfrom petastorm import make_reader\n"
    after = text.replace("petastorm==0.12.1", "mdstorm").replace("petastorm", "mdstorm")
    check_rewrite(text, after, "a.py")
    check_rewrite(text.replace("\n", "\r\n"), after.replace("\n", "\r\n"), "a.py")


@pytest.mark.parametrize(
    "text",
    [
        "# !pip install petastorm\nx = 1\n",
        "# %% [markdown]\n# !pip install petastorm\n",
        "# %%\nx = '''\n# !pip install petastorm\n'''\n",
    ],
)
def test_other_comments_stay(text: str) -> None:
    check_noop(text, "a.py")


@pytest.mark.parametrize(
    ("path", "head", "fence"),
    [
        ("a.md", HEADER, "```python"),
        ("a.md", "---\nkernelspec:\n  name: x\n---\n", "```{code-cell} ipython3\n:tags: [a]"),
        ("a.md", HEADER, "~~~python"),
        ("a.qmd", "", "```{python}"),
        ("a.Rmd", "", "```{python name, echo=FALSE}"),
    ],
)
def test_cells_of_a_page_are_migrated(path: str, head: str, fence: str) -> None:
    end = fence[:3]
    text = (
        f"{head}# About petastorm\n\n{fence}\nimport petastorm\n%time x = 1\n{end}\n\nthen\n\n"
        f"{fence}\npetastorm.make_reader(url)\n{end}\nand {end}bash\npip install petastorm\n{end}\n"
    )
    after = text.replace("import petastorm", "import mdstorm").replace("petastorm.m", "mdstorm.m")
    check_rewrite(text, after, path)


def test_commands_of_a_page_install_mdstorm() -> None:
    text = f"{HEADER}```bash\npip install petastorm==0.12.1\n```\n"
    check_rewrite(text, text.replace("petastorm==0.12.1", "mdstorm"), "a.md")


def test_comments_are_inserted_into_the_cell() -> None:
    text = f"{HEADER}```python\nfrom petastorm.reader import Ventilator\n```\n"
    output = migrate(text, path="a.md").output
    assert "```python\n# TODO(mdstorm): PM107: " in output
    assert "\nfrom petastorm.reader import Ventilator\n```\n" in output


def test_a_cell_that_is_broken_is_named_by_its_line() -> None:
    text = f"{HEADER}```python\nimport petastorm as p\n```\n\n```python\npetastorm.f(:\n```\n"
    result = migrate(text, path="a.md")
    assert result.output == text.replace("import petastorm", "import mdstorm")
    (problem,) = result.errors
    assert problem.line == text[: text.index("petastorm.f")].count("\n") + 1


@pytest.mark.parametrize("fence", ["```python", '```python active="md"', "```text"])
def test_pages_and_blocks_that_are_shown_alone_are_reported(fence: str) -> None:
    block = f"{fence}\nimport petastorm\n```\n"
    check_noop(f"# A page\n\n{block}", "a.md")
    check_finding(f"# A page\n\n{block}", "PM410", "import petastorm", "a.md")
    if "python" not in fence or "active" in fence:
        check_noop(f"{HEADER}{block}", "a.md")
        check_finding(f"{HEADER}{block}", "PM410", "import petastorm", "a.md")
