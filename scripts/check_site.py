"""Check the site built by `make docs`: links, names, searches, `llms.txt`, and the first page."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util.inventory import InventoryFile

ROOT = Path(__file__).parents[1]
#: Maximum size of the first page in bytes, including all files that it loads.
FIRST_PAGE_BYTES = 200_000
#: Common searches, each with pages of which at least one must be among the first three results. See
#: `docs/_static/relevance.js` and the keywords of pages in `docs/conf.py`.
SEARCHES = {
    "ModuleNotFoundError petastorm": ("quickstart/petastorm", "migrate", "faq", "troubleshooting"),
    "No space left on device": ("troubleshooting",),
    "WeightedRandomSampler": ("how-to/imbalance",),
    "SPARK_HOME": ("troubleshooting", "doctor"),
    "accelerate": ("trainers",),
    "append": ("how-to/append",),
    "batch size": ("how-to/batches",),
    "benchmark": ("benchmarks",),
    "bert": ("how-to/text",),
    "cache": ("how-to/keep-a-copy",),
    "cache dir": ("how-to/keep-a-copy",),
    "categorical": ("how-to/categories",),
    "checkpoint": ("how-to/resume",),
    "class imbalance": ("how-to/imbalance", "how-to/categories"),
    "class weights": ("how-to/imbalance", "how-to/categories"),
    "column subset": ("how-to/columns",),
    "conda": ("how-to/docker",),
    "convert csv": ("quickstart/parquet", "commands", "how-to/write-rows", "quickstart/spark"),
    "convert parquet": ("quickstart/parquet", "commands"),
    "corrupt file": ("troubleshooting",),
    "credentials": ("storage",),
    "cross validation": ("how-to/split",),
    "cuda": ("how-to/gpus",),
    "databricks": ("runtimes", "how-to/dbfs"),
    "dbfs": ("how-to/dbfs",),
    "decimal": ("how-to/decimals",),
    "delete cache": ("how-to/keep-a-copy", "commands"),
    "delta table": ("delta",),
    "deterministic": ("concepts/orders",),
    "docker": ("how-to/docker",),
    "drop columns": ("how-to/columns",),
    "drop_last": ("how-to/batches",),
    "early stopping": ("trainers",),
    "embedding": ("how-to/categories",),
    "float32": ("how-to/batches",),
    "image paths": ("how-to/files",),
    "gpu idle": ("performance", "how-to/gpus"),
    "horovod": ("how-to/horovod",),
    "hugging face trainer": ("trainers",),
    "iceberg table": ("iceberg",),
    "image augmentation": ("how-to/images", "how-to/transform"),
    "images": ("how-to/images",),
    "infinite dataset": ("how-to/batches", "concepts/orders"),
    "inference": ("how-to/inference",),
    "install": ("install",),
    "java not found": ("troubleshooting", "doctor"),
    "keras": ("how-to/keras",),
    "keras fit": ("how-to/keras",),
    "kubernetes": ("many_machines", "how-to/docker"),
    "last batch smaller": ("how-to/batches",),
    "lightning": ("trainers",),
    "limitations": ("does-not",),
    "lineage": ("how-to/mlflow", "how-to/trace-rows"),
    "migrate": ("migrate",),
    "minibatch size": ("how-to/batches",),
    "mislabelled": ("how-to/trace-rows", "examples"),
    "mixed precision": ("how-to/gpus",),
    "multi gpu": ("how-to/gpus", "how-to/several-processes"),
    "multiple gpus": ("how-to/gpus", "how-to/several-processes"),
    "normalize features": ("how-to/transform", "how-to/batches"),
    "null": ("concepts/nulls",),
    "num_epochs": ("how-to/batches", "how-to/resume", "concepts/orders"),
    "num_workers": ("performance",),
    "one hot": ("how-to/categories",),
    "out of memory": ("performance",),
    "oversampling": ("how-to/imbalance",),
    "partial batch": ("how-to/batches",),
    "petastorm error": ("troubleshooting", "differences", "quickstart/petastorm", "migrate"),
    "petastorm-copy-dataset": ("migrate/petastorm-commands",),
    "petastorm-throughput": ("migrate/petastorm-commands",),
    "pin_memory": ("how-to/gpus",),
    "predict on dataframe": ("how-to/inference",),
    "pretrained tokenizer": ("how-to/text",),
    "progress bar": ("display",),
    "python 3.12": ("install",),
    "python version": ("install", "runtimes"),
    "pytorch dataloader": ("quickstart/spark", "api/pytorch", "quickstart/parquet"),
    "random seed": ("concepts/orders",),
    "ray train": ("trainers",),
    "read delta table": ("delta",),
    "resize images": ("how-to/images",),
    "resume": ("how-to/resume",),
    "resume training": ("how-to/resume",),
    "s3 credentials": ("storage",),
    "sample weights": ("how-to/imbalance", "how-to/keras", "how-to/categories"),
    "sas token": ("storage",),
    "save checkpoint": ("how-to/resume",),
    "select columns": ("how-to/columns",),
    "serverless": ("runtimes",),
    "set_epoch": ("how-to/resume", "api/pytorch", "api/engine", "api/readers"),
    "shuffle": ("concepts/orders",),
    "shuffle data": ("concepts/orders",),
    "skip bad rows": ("troubleshooting",),
    "slow": ("performance",),
    "slurm": ("many_machines",),
    "spark conf key": ("runtimes", "how-to/keep-a-copy"),
    "spot instance": ("how-to/resume",),
    "stateful dataloader": ("how-to/resume", "mosaicml"),
    "streaming dataset": ("mosaicml", "quickstart/mosaicml", "api/streaming", "api/engine"),
    "string columns": ("how-to/text", "types"),
    "telemetry": ("faq",),
    "tensorflow dataset": ("how-to/keras", "api/tensorflow", "quickstart/spark"),
    "tf.data": ("how-to/keras", "api/tensorflow"),
    "time travel": ("delta", "iceberg"),
    "tab completion": ("commands",),
    "tokenizer": ("how-to/text",),
    "too many open files": ("doctor", "troubleshooting"),
    "torchrun": ("how-to/several-processes", "many_machines"),
    "train test split": ("how-to/split",),
    "training slow": ("performance",),
    "transformspec": ("how-to/transform", "api/transforms"),
    "turn off warnings": ("display",),
    "unity catalog": ("unity_catalog", "delta"),
    "vector column": ("types", "how-to/batches"),
    "vocabulary": ("how-to/categories",),
    "which images trained the model": ("how-to/mlflow", "how-to/trace-rows", "faq"),
    "windows": ("faq", "install"),
}
#: The share of searches that must succeed.
FOUND = 0.95
#: Pages that link to the tests of what they state.
PROVEN = ("guarantees.html", "trainers.html")
#: Pages that Sphinx makes for browsers, and folders of pages that it generates from docstrings.
_MADE = {"genindex.html", "py-modindex.html", "search.html"}
_MADE_FOLDERS = ("_modules/", "api/")
#: Attributes that contain the files that a page loads.
_LOADED = {("link", "href"), ("script", "src"), ("img", "src")}


class Page(HTMLParser):
    """A page's resources, links and anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loaded: set[str] = set()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the attributes of a tag."""
        values = {name: value or "" for name, value in attrs}
        self.places |= {values[name] for name in ("id", "name") if values.get(name)}
        is_page = tag == "link" and values.get("rel") not in ("stylesheet", "icon")
        for name in ("href", "src"):
            if name in values and (tag, name) in _LOADED and not is_page:
                self.loaded.add(values[name])
            elif name in values and not is_page:
                self.links.add(values[name])

    def bytes(self) -> int:
        """Return the uncompressed size in bytes of the page and its resources."""
        files = {self.path}
        for url in self.loaded:
            files.add((self.path.parent / urlsplit(url).path).resolve())
        return sum(file.stat().st_size for file in files)


def broken_links(pages: dict[Path, Page]) -> list[str]:
    """Return broken links, and files to load that do not exist."""
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
                found.append(f"{path}: {url} does not exist")
            elif target in pages and parts.fragment not in {"", *pages[target].places}:
                found.append(f"{path}: {url} has an anchor that does not exist")
    return found


def public_names() -> set[str]:
    """Return the names exported by the modules on the API pages."""
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
    """Return the ``__all__`` of a module without importing the module."""
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


def lost_searches(folder: Path) -> list[str]:
    """Return searches whose first results in a browser do not contain the expected pages."""
    node = shutil.which("node")
    if node is None:
        print("searches were not tested, because node is not installed")
        return []
    done = subprocess.run(
        [node, ROOT / "scripts" / "search_site.js", folder],
        input=json.dumps([*SEARCHES]),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout)
    lost = [
        f"a search for {query!r} finds {answers[query]}, not {' or '.join(pages)}"
        for query, pages in SEARCHES.items()
        if not {*pages} & {*answers[query]}
    ]
    print(f"{len(SEARCHES) - len(lost)} of {len(SEARCHES)} searches find their page")
    return lost if len(lost) > (1 - FOUND) * len(SEARCHES) else []


def llms_problems(folder: Path, pages: Iterable[Path]) -> list[str]:
    """Return pages missing from ``llms.txt``, entries without a page, and repeated titles."""
    lines = (folder / "llms.txt").read_text("utf-8").splitlines()
    listed = [line for line in lines if line.startswith("- ")]
    entries = [re.fullmatch(r"- \[(.+)\]\((\S+)\): \S.*", line) for line in listed]
    found = Counter(entry[2] for entry in entries if entry is not None)
    titles = Counter(entry[1] for entry in entries if entry is not None)
    names = {page.relative_to(folder.resolve()).as_posix() for page in pages}
    written = {name for name in names - _MADE if not name.startswith(_MADE_FOLDERS)}
    problems = [
        f"{titles[title]} pages have the title {title}" for title in titles if titles[title] > 1
    ]
    problems += [
        f"llms.txt lists {name} {found[name]} times" for name in written if found[name] != 1
    ]
    return problems + [
        f"llms.txt lists {name}, which does not exist" for name in found.keys() - written
    ]


def main(folder: Path) -> int:
    """Print the problems and return an exit code."""
    pages = {path: Page(path) for path in sorted(folder.resolve().rglob("*.html"))}
    problems = broken_links(pages)

    inventory = InventoryFile.loads((folder / "objects.inv").read_bytes(), uri="")
    documented = {name for kind in inventory.data.values() for name in kind}
    problems += [f"{name} is not in the API reference" for name in public_names() - documented]

    problems += lost_searches(folder)
    problems += [
        f"{name} has no link to a test"
        for name in PROVEN
        if not any("/test_" in url for url in pages[(folder / name).resolve()].links)
    ]
    problems += llms_problems(folder, pages)

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
