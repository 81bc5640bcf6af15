"""How Sphinx makes a site of these pages: `make docs`.

Nothing is fetched. Libraries that are only needed to run mdstorm, not to read its docstrings, are
imitated, so that the environment of the site has neither PyTorch, TensorFlow nor PySpark.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.ext.autodoc.mock import _MockObject

from mdstorm import __version__

HERE = Path(__file__).parent
ROOT = HERE.parent

#: Where the files of the repository can be read, such as "https://example.org/mdstorm/blob/main".
#: Links that lead out of `docs/` are plain text while it is empty.
REPOSITORY_URL = ""

#: Files outside of `docs/` that are pages of the site, by the page that includes them.
_INCLUDED = {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}

project = "mdstorm"
author = "the authors of mdstorm"
project_copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
nitpicky = True
# Names in docstrings are links where they have a page here; arguments and other libraries have none.
default_role = "py:obj"
nitpick_ignore_regex = [("py:obj", ".*")]

# Markdown
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_block"]
suppress_warnings = ["toc.empty_glob"]  # no notebooks

# Notebooks are shown as they are committed.
nb_execution_mode = "off"

# Docstrings
autodoc_mock_imports = [
    *("torch", "tensorflow", "pyspark", "pandas", "lightning", "pytorch_lightning"),
    *("transformers", "accelerate", "deltalake"),
]
# What modules do with imitated libraries when they are imported, and the imitation lacks.
_MockObject.__or__ = lambda self, other: Any
_MockObject.__int__ = lambda self: 0
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# The page
html_theme = "furo"
html_title = "mdstorm"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp"


def _copy_notebooks() -> None:
    """Bring the notebooks of `examples/` to where Sphinx finds them."""
    target = HERE / "_notebooks"
    shutil.rmtree(target, ignore_errors=True)
    for notebook in sorted((ROOT / "examples").rglob("*.ipynb")):
        target.mkdir(exist_ok=True)
        shutil.copy(notebook, target)


def _lead_somewhere(app: Any, docname: str, source: list[str]) -> None:
    """Give links that lead out of `docs/` their places on the site or in the repository."""
    page = HERE / f"{docname}.md"
    if not page.exists():
        return

    def replace(match: re.Match[str]) -> str:
        text, target, anchor = match["text"], match["target"], match["anchor"] or ""
        path = (page.parent / target).resolve()
        if path.is_relative_to(HERE):
            return match[0]
        name = path.relative_to(ROOT).as_posix()
        if name in _INCLUDED:
            return f"[{text}](/{_INCLUDED[name]}{anchor})"
        return f"[{text}]({REPOSITORY_URL}/{name}{anchor})" if REPOSITORY_URL else text

    link = r"\[(?P<text>[^\]\n]+)\]\((?P<target>\.\.?/[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
    source[0] = re.sub(link, replace, source[0])


def _draw_inline(app: Any, doctree: nodes.document, docname: str) -> None:
    """Put drawings into the page, where they follow its colours, in the place of links to them."""
    for image in list(doctree.findall(nodes.image)):
        if image["uri"].endswith(".svg"):
            drawing = (HERE / image["uri"]).read_text("utf-8")
            image.replace_self(nodes.raw("", drawing, format="html"))


def setup(app: Any) -> None:
    """Tell Sphinx of the functions above."""
    _copy_notebooks()
    app.connect("source-read", _lead_somewhere)
    app.connect("doctree-resolved", _draw_inline)
