"""How Sphinx makes a site of these pages: `make docs`.

Nothing is fetched. Libraries that are only needed to run mdstorm, not to read its docstrings, are
imitated, so that the environment of the site has neither PyTorch, TensorFlow nor PySpark.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.ext.autodoc.mock import _MockObject, mock

import mdstorm_backend
from mdstorm import __version__
from mdstorm_backend.streaming import text, vision

HERE = Path(__file__).parent
ROOT = HERE.parent

#: Where the files of the repository can be read, such as "https://example.org/mdstorm/blob/main".
#: Links that lead out of `docs/` are plain text while it is empty.
REPOSITORY_URL = ""

#: Files outside of `docs/` that are pages of the site, by the page that includes them.
_INCLUDED = {
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
}
#: The notebooks, and where Sphinx finds them.
_EXAMPLES, _NOTEBOOKS = ROOT / "examples" / "notebooks", HERE / "_notebooks"

#: Words that the site's search answers with a page, before whatever else has them in its name.
_WORDS = {
    "benchmarks": ("benchmark", "benchmarks", "speed"),
    "concepts/orders": ("order", "exact", "elastic"),
    "concepts/shares": ("share", "shard_count", "cur_shard", "even batches"),
    "delta": ("delta", "delta table", "unity catalog table"),
    "doctor": ("doctor", "check setup", "diagnose", "java", "pyspark_python"),
    "how-to/batches": ("batch size", "batch_size", "float32", "float64", "dtype", "matrix"),
    "how-to/categories": (
        *("category", "categories", "categorical", "embedding", "embeddings", "vocabulary"),
        *("stringindexer", "string columns"),
    ),
    "how-to/convert": ("convert", "convert parquet", "parquet", "parquet to mds"),
    "how-to/dbfs": ("dbfs", "preprocess", "preprocessing"),
    "how-to/decimals": ("decimal", "decimals"),
    "how-to/docker": ("docker", "dockerfile", "conda", "container", "shm"),
    "how-to/filter": ("filter", "filters", "predicate"),
    "how-to/find-what-waits": (
        "slow",
        "statistics",
        "bottleneck",
        "gpu utilization",
        "num_workers",
    ),
    "how-to/gpus": ("gpu", "gpus", "multi gpu", "cuda", "device", "pin_memory", "pin memory"),
    "how-to/images": ("image", "images", "jpeg", "png"),
    "how-to/inference": ("inference", "predict", "prediction", "batch inference", "scoring"),
    "how-to/keep-a-copy": (
        *("cache", "cache dir", "cache directory", "parent cache directory", "caching"),
        *("cache_key", "delete", "spark conf key"),
    ),
    "how-to/keras": ("keras", "features", "labels"),
    "how-to/nulls": ("null", "nulls", "missing values", "nan"),
    "how-to/object-store": (
        *("s3", "azure", "google cloud", "object store", "credentials", "s3 credentials"),
        *("azure credentials", "access key", "minio"),
    ),
    "how-to/resume": ("resume", "checkpoint", "state_dict"),
    "how-to/several-processes": ("ddp", "distributed", "rank", "torchrun", "multi gpu", "fsdp"),
    "how-to/shuffle": ("shuffle", "shuffling", "seed", "deterministic", "reproducible"),
    "how-to/small-table": ("topandas", "small table"),
    "how-to/split": ("split", "train test split", "validation", "validation split"),
    "how-to/text": ("text", "tokens", "tokenizer", "string columns", "strings", "nlp", "llm"),
    "how-to/transform": ("transform", "transform_spec", "augmentation"),
    "how-to/tune": ("hyperopt", "optuna", "tune"),
    "how-to/without-framework": ("arrow", "numpy", "pandas"),
    "how-to/write-rows": ("schema", "write"),
    "install": ("install", "pip"),
    "many_machines": ("kubernetes", "slurm", "multi node", "cluster", "many machines"),
    "migrate": ("migrate", "petastorm"),
    "performance": ("performance", "out of memory", "memory", "num_workers", "prefetch"),
    "runtimes": (
        "databricks",
        "runtime",
        "serverless",
        "spark connect",
        "spark conf",
        "spark conf key",
    ),
    "trainers": (
        *("accelerate", "lightning", "deepspeed", "hugging face", "ray", "early stopping"),
        *("trainer", "composer"),
    ),
    "types": ("types", "vector", "vector column", "vectors", "timestamp", "date", "array column"),
    "versions": ("versions", "deprecation", "semantic versioning"),
}

project = "mdstorm"
author = "the authors of mdstorm"
project_copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
nitpicky = True
# Names in docstrings are links where they have a page here: arguments, other libraries have none.
default_role = "py:obj"
suppress_warnings = [
    "ref.python"
]  # a name such as `name`, which attributes of several classes have
nitpick_ignore_regex = [("py:obj", ".*"), ("py:class", ".*")]

# Markdown
myst_heading_anchors = 4

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
with mock(autodoc_mock_imports):  # names that are loaded on first use, when nothing is imitated
    for _module in (mdstorm_backend, text, vision, vision.base):
        for _name in _module.__all__:
            setattr(_module, _name, getattr(_module, _name))
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# The page
html_theme = "furo"
html_title = f"mdstorm {__version__}"  # in the header of every page
html_static_path = ["_static"]
html_favicon = "_static/icon.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp"


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Return where the source of a documented name is; None while the repository has no address."""
    if not REPOSITORY_URL:
        return None
    found: Any = importlib.import_module(info["module"])
    for name in info["fullname"].split("."):
        found = getattr(found, name, None)
    try:
        file = inspect.getsourcefile(inspect.unwrap(found))
        line = inspect.getsourcelines(inspect.unwrap(found))[1]
    except (OSError, TypeError):  # a constant, or an imitation
        return None
    path = Path(file or "").resolve()
    return f"{REPOSITORY_URL}/{path.relative_to(ROOT)}#L{line}" if ROOT in path.parents else None


def _copy_notebooks() -> None:
    shutil.rmtree(_NOTEBOOKS, ignore_errors=True)
    shutil.copytree(_EXAMPLES, _NOTEBOOKS)


def _relinked(text: str, folder: Path) -> str:
    """Return the text of a page in `folder`, whose links lead to the site or to the repository."""

    def replace(match: re.Match[str]) -> str:
        path = (folder / match["target"]).resolve()
        if not path.exists():
            return match[0]
        anchor = match["anchor"] or ""
        if path.is_relative_to(_EXAMPLES):
            path = _NOTEBOOKS / path.relative_to(_EXAMPLES)
        name = path.relative_to(ROOT).as_posix()
        page = _INCLUDED.get(name) or (path.is_relative_to(HERE) and name.removeprefix("docs/"))
        if page:
            return f"[{match['text']}](/{page}{anchor})"
        if REPOSITORY_URL:
            return f"[{match['text']}]({REPOSITORY_URL}/{name}{anchor})"
        return match["text"]

    link = (
        r"(?<!!)\[(?P<text>(?:[^\]\n]|\n(?!\n))+)\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)"
    )
    return re.sub(link, replace, text)


def _relink_page(app: Any, docname: str, source: list[str]) -> None:
    page = HERE / f"{docname}.md"
    if page.exists():
        source[0] = _relinked(source[0], page.parent)
    if words := _WORDS.get(docname):
        heading, newline, rest = source[0].partition("\n")
        entries = ", ".join(f"! {word}" for word in words)
        source[0] = f"{heading}{newline}\n```{{index}} {entries}\n```\n{rest}"


def _relink_included(app: Any, path: Path, docname: str, content: list[str]) -> None:
    content[0] = _relinked(content[0], (HERE / path).parent)


def _draw_inline(app: Any, doctree: nodes.document, docname: str) -> None:
    """Put drawings into the page, where they follow its colours, in the place of links to them."""
    for image in list(doctree.findall(nodes.image)):
        path = HERE / image["uri"]
        drawing = path.read_text("utf-8") if path.suffix == ".svg" else ""
        if 'class="picture"' in drawing:
            framed = f'<div class="picture">{drawing}</div>'
            image.replace_self(nodes.raw("", framed, format="html"))


def _write_llms(app: Any, error: Exception | None) -> None:
    """Write ``llms.txt``: the pages by their titles, for programs that read the site."""
    if error is not None or app.builder.name != "html":
        return
    lines = ["# mdstorm", "", "Petastorm's API over MDS shards. The pages of the manual:", ""]
    for page in sorted(app.env.titles):
        if not page.startswith("api/"):
            lines.append(f"- [{app.env.titles[page].astext()}]({page}.html)")
    Path(app.outdir, "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def setup(app: Any) -> None:
    """Tell Sphinx of the functions above."""
    _copy_notebooks()
    app.connect("source-read", _relink_page)
    app.connect("include-read", _relink_included)
    app.connect("doctree-resolved", _draw_inline)
    app.connect("build-finished", _write_llms)
