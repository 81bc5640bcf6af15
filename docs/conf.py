"""Configuration of Sphinx, with which `make docs` builds the documentation site.

Nothing is downloaded. Libraries that are needed to run mdstorm, but not to read its docstrings, are
mocked, so the environment that builds the site does not need PyTorch, TensorFlow or PySpark.
"""

from __future__ import annotations

import html
import importlib
import inspect
import re
import runpy
import shutil
import textwrap
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.ext.autodoc.mock import _MockObject, mock

import mdstorm_backend
from mdstorm import __version__, errors
from mdstorm_backend.streaming import text, vision

HERE = Path(__file__).parent
ROOT = HERE.parent

#: URL under which the repository's files can be read, such as
#: "https://example.org/mdstorm/blob/main". If empty, the site contains copies of the files that its
#: pages link to, and links to folders become plain text.
REPOSITORY_URL = ""

#: Files and folders outside of `docs/` that are shown on the site, each with its page.
_INCLUDED = {
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
    "migrate/mdstorm_migrate/rules/docs": "migrate/rules.md",
    "scripts/list_messages.py": "messages.md",
}
#: Directory of the notebooks, and of the copies that Sphinx reads.
_EXAMPLES, _NOTEBOOKS = ROOT / "examples" / "notebooks", HERE / "_notebooks"

#: Search terms for each page, in addition to the words in the page's title and text.
_WORDS = {
    "arguments": "arguments, parameters, keyword arguments, options of a loader",
    "benchmarks": "benchmark, speed, throughput, faster",
    "commands": (
        "command, commands, cli, command line, inspect, head, verify, reindex, terminal, "
        "completion, autocomplete, convert, compression, zstd, shard size, hash, checksum"
    ),
    "concepts/nulls": "null, nulls, missing values, nan, fill_nulls, impute",
    "concepts/orders": (
        "order, exact, elastic, stored order, shuffle, shuffling, shuffle data, seed, random seed, "
        "random, deterministic, reproducible, random order, shuffle buffer, sorted table, "
        "shuffle parquet, larger than memory"
    ),
    "concepts/shards": "shard, shards, shard size, index.json",
    "delta": (
        "delta, delta table, read delta, unity catalog table, time travel, versionAsOf, "
        "timestamp, deletion vectors, schema evolution"
    ),
    "differences": "differences, compatibility",
    "display": (
        "display, progress bar, progress, repr, notebook output, turn off warnings, silence "
        "warnings, suppress warnings, logging, filterwarnings"
    ),
    "does-not": "limits, limitations, limitation, not supported, unsupported",
    "doctor": (
        "doctor, check setup, diagnose, java, java not found, pyspark_python, environment check, "
        "too many open files, ulimit"
    ),
    "examples": "examples, example notebooks, tutorial, sample code",
    "faq": (
        "faq, windows, macos, when not to use, alternatives, licence, telemetry, jax, topandas, "
        "small table, small data, fits in memory, in memory"
    ),
    "guarantees": (
        "guarantees, tests, trust, exactly once, dataset changed, changed while training, "
        "overwritten, snapshot"
    ),
    "how-to/append": (
        "append, append data, daily data, incremental, add rows, new rows, delete rows, "
        "update rows, merge_index"
    ),
    "how-to/batches": (
        "batch size, batch_size, drop_last, last batch, smaller batch, partial batch, incomplete "
        "batch, minibatch, float32, float64, dtype, matrix, stack, num_epochs, epochs, infinite, "
        "endless, iterate twice, expected float but found double"
    ),
    "how-to/categories": (
        "category, categories, categorical, embedding, embeddings, vocabulary, encode, "
        "stringindexer, string columns, one hot, one-hot encoding, label encoding, tabular"
    ),
    "how-to/columns": (
        "columns, select columns, drop columns, column subset, exclude columns, schema_fields"
    ),
    "how-to/dbfs": "dbfs, preprocess, preprocessing",
    "how-to/decimals": "decimal, decimals, money, cast decimal",
    "how-to/docker": "docker, dockerfile, conda, container, image, shm, environment",
    "how-to/filter": ("filter, filters, predicate, where, select rows, subset of rows, row groups"),
    "how-to/gpus": (
        "gpu, gpus, multi gpu, multiple gpus, cuda, device, pin_memory, pin memory, non_blocking, "
        "mixed precision, autocast, amp"
    ),
    "how-to/horovod": "horovod, hvd, horovodrun, horovodrunner",
    "how-to/images": (
        "image, images, jpeg, png, heic, heif, resize, pillow, vision, decode images, augmentation"
    ),
    "how-to/files": (
        "files=, image paths, paths of images, images in a volume, images from s3, images in s3, "
        "audio files, folder of images, file column, read files"
    ),
    "how-to/mlflow": (
        "mlflow, log_input, log_state, load_trace, lineage, data lineage, provenance, which data "
        "trained the model, which images trained the model, audit a model"
    ),
    "how-to/imbalance": (
        "class weights, class imbalance, imbalanced, imbalance, unbalanced classes, sample "
        "weights, sample_weight, sample_weights, oversampling, undersampling, "
        "weightedrandomsampler, weighted sampling, weighted loss, pos_weight, rare class, balance "
        "classes, stratified"
    ),
    "how-to/inference": (
        "inference, predict, prediction, batch inference, scoring, score a table, row order, "
        "ordered, in order"
    ),
    "how-to/keep-a-copy": (
        "cache, cache dir, cache directory, parent cache directory, caching, cache_key, delete, "
        "delete cache, clear cache, clean up, remove copies, disk space, reuse, spark conf key"
    ),
    "how-to/keras": (
        "keras, keras fit, features, labels, tensorflow, tensorflow dataset, tf.data, tf.data "
        "dataset, make_tf_dataset, steps_per_epoch, model.fit, tf.distribute"
    ),
    "how-to/choose-rows": (
        "choose rows, rows=, where=, conditions, equal batches, subset, torch.utils.data.Subset, "
        "SubsetRandomSampler, indices, sample of the rows, bad rows, exclude rows, train test "
        "split by number, bootstrap, resample, curriculum, curriculum learning"
    ),
    "how-to/loss-spikes": "loss spike, loss spikes, skip batches, skip_batches, bad batch, diverge",
    "how-to/trace-rows": (
        "trace, trace rows, which rows, rows of a batch, batch of a row, bad rows, mislabelled, "
        "mislabeled, wrong labels, label errors, which steps saw a row, find rows, lineage, "
        "gradient accumulation"
    ),
    "how-to/mesh": "device mesh, mesh, tensor parallel, fsdp2, pipeline parallel",
    "how-to/resume": (
        "resume, resume training, checkpoint, checkpoints, save checkpoint, state_dict, "
        "load_state_dict, set_epoch, restart, crash, preemption, spot instance, stateful "
        "dataloader, statefuldataloader, continue training"
    ),
    "how-to/several-processes": (
        "ddp, distributed, distributed training, data parallel, rank, torchrun, multi gpu, fsdp, "
        "several gpus, multiple processes, hang, uneven ranks, share, shard_count, cur_shard, even "
        "batches, uneven, different number of batches, batchnorm, batch normalization, "
        "syncbatchnorm, rows of a rank, duplicate rows, repeated rows, every process reads all "
        "rows, lost rows, missing rows"
    ),
    "how-to/split": (
        "split, train test split, split by time, split by date, validation, validation split, "
        "cross validation, k-fold, "
        "holdout, evaluation, stratified"
    ),
    "how-to/text": (
        "text, tokens, tokenizer, string columns, strings, nlp, llm, bert, fine-tuning, padding, "
        "sequences, variable length, embedding of tokens, ragged"
    ),
    "how-to/transform": (
        "transform, transform_spec, transformspec, augmentation, normalize, normalize features, "
        "standardize, scale features, feature engineering, map function, preprocess in the loader"
    ),
    "how-to/tune": "hyperopt, optuna, tune, hyperparameters, hyperparameter search, joblib",
    "how-to/without-framework": "arrow, numpy, pandas, jax, scikit-learn, xgboost, lightgbm",
    "how-to/write-rows": (
        "schema, write, unischema, materialize_dataset, write images, dict_to_spark_row"
    ),
    "iceberg": "iceberg, iceberg table, iceberg snapshot, pyiceberg, time travel, schema evolution",
    "index": "overview, introduction",
    "install": (
        "install, pip, pip install, requirements, python version, python 3.10, python 3.11, python "
        "3.12, python 3.13, supported versions, wheel, extras, windows, uv"
    ),
    "many_machines": (
        "kubernetes, slurm, multi node, cluster, many machines, several nodes, mpi, shared "
        "filesystem, nfs"
    ),
    "messages": "messages, error messages, warnings, log messages",
    "migrate": (
        "migrate, migration, petastorm, replace petastorm, no module named petastorm, pre-commit, "
        "rewrite imports"
    ),
    "migrate/ci": "ci, continuous integration, pipeline, github actions, exit code, exit codes",
    "migrate/compare": "compare, prove, same data, record a run",
    "databricks": (
        "databricks, ai runtime, ucdataset, ucvolumedataset, databricks.air, serverless_gpu, "
        "serverless gpu, compare loaders, databricks air run"
    ),
    "migrate/petastorm-commands": (
        "petastorm-throughput, petastorm-copy-dataset, petastorm-generate-metadata, copy dataset"
    ),
    "migrate/walkthrough": "migrate a repository, step by step, walkthrough, recording",
    "mosaicml": (
        "mosaicml, mosaicml streaming, streamingdataset, streaming dataset, mds, replace streaming"
    ),
    "performance": (
        "performance, out of memory, memory, memory usage, num_workers, prefetch, oom, workers, "
        "speed up, cpu, slow, slow training, statistics, metrics, bottleneck, gpu utilization, "
        "gpu idle, profile, data loading time, waiting, samples per second, tensorboard, "
        "throughput, monitor, logging"
    ),
    "quickstart/mosaicml": "mosaicml quick start, write mds, mdswriter",
    "quickstart/parquet": (
        "parquet files, read parquet, getting started, convert parquet, parquet to mds, convert csv"
    ),
    "quickstart/petastorm": "petastorm, run petastorm code, import petastorm",
    "quickstart/spark": "spark dataframe, dataframe, pyspark, getting started",
    "runtimes": (
        "databricks, runtime, databricks runtime, serverless, spark connect, spark conf, spark "
        "conf key, java version, spark version, cluster library"
    ),
    "storage": (
        "storage, storages, local cache, download, cache size, cache_limit, fsspec, mount, "
        "volumes, s3, azure, google cloud, gcs, object store, bucket, minio, storage_options, "
        "credentials, s3 credentials, azure credentials, access key, secrets, token, sas token, "
        "rotate, expired token, managed identity, proxy, certificate, https_proxy, ca bundle"
    ),
    "trainers": (
        "trainer, accelerate, lightning, deepspeed, hugging face, hugging face trainer, ray, ray "
        "train, early stopping, composer, trainers, torchdistributor, callbacks"
    ),
    "troubleshooting": (
        "error, exception, traceback, troubleshooting, hang, hangs, fails, duplicate rows, "
        "missing rows, corrupt, corrupt file, damaged, bad rows, skip bad rows, on_corrupt, "
        "spark_home, spark-submit, javapackage, no space left on device, disk full, enospc"
    ),
    "types": (
        "types, data types, vector, vector column, vectors, timestamp, date, array column, "
        "struct, map type, boolean, ragged, list column, bfloat16, float16, half precision, "
        "nested struct, timezone"
    ),
    "unity_catalog": "unity catalog, volumes, three-part name, table name, credential vending",
    "versions": "versions, deprecation, semantic versioning, support policy",
}

#: Minimum and maximum length of a page's description, in characters: search engines cut off longer
#: descriptions, and shorter paragraphs only introduce a block of code.
_LEAST_DESCRIPTION, _LONGEST_DESCRIPTION = 40, 200

#: Drawings up to this width, in pixels, fit on a phone's screen, where wider ones are scrolled.
_NARROW = 480

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
# Names in docstrings become links if they have a page here. Arguments and other libraries do not.
default_role = "py:obj"
suppress_warnings = ["ref.python"]  # references such as `name`, an attribute of several classes
nitpick_ignore_regex = [("py:obj", ".*"), ("py:class", ".*")]

# Markdown
myst_heading_anchors = 4

# Notebooks are shown as they are committed.
nb_execution_mode = "off"

# Docstrings
autodoc_mock_imports = [
    *("torch", "tensorflow", "pyspark", "pandas", "lightning", "pytorch_lightning"),
    "mlflow",
    *("transformers", "accelerate", "deltalake"),
]
# Operations on mocked libraries that modules use on import, and Sphinx's mocks do not support.
_MockObject.__or__ = lambda self, other: Any
_MockObject.__int__ = lambda self: 0
with mock(autodoc_mock_imports):  # load lazy names now, as mocks are not active later
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
html_title = f"mdstorm {__version__}"  # shown in the header of every page
html_static_path = ["_static"]
html_favicon = "_static/icon.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}
if REPOSITORY_URL:  # show "edit this page", and a link to the page's source
    _edit_url = REPOSITORY_URL.replace("/blob/", "/edit/")
    html_theme_options["source_view_link"] = f"{REPOSITORY_URL}/docs/{{filename}}"
    html_theme_options["source_edit_link"] = f"{_edit_url}/docs/{{filename}}"
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp"


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Return the URL of the source code of a documented name, or None if there is no such URL."""
    if not REPOSITORY_URL:
        return None
    found: Any = importlib.import_module(info["module"])
    for name in info["fullname"].split("."):
        found = getattr(found, name, None)
    try:
        file = inspect.getsourcefile(inspect.unwrap(found))
        line = inspect.getsourcelines(inspect.unwrap(found))[1]
    except (OSError, TypeError):  # a constant or a mock
        return None
    path = Path(file or "").resolve()
    return f"{REPOSITORY_URL}/{path.relative_to(ROOT)}#L{line}" if ROOT in path.parents else None


def _copy_notebooks() -> None:
    shutil.rmtree(_NOTEBOOKS, ignore_errors=True)
    shutil.copytree(_EXAMPLES, _NOTEBOOKS)


def _make_pages() -> None:
    """Write the pages that are made from the source."""
    rules = runpy.run_path(str(ROOT / "scripts" / "join_rule_pages.py"))["joined_pages"]()
    (HERE / "migrate" / "rules.md").write_text(rules, "utf-8")
    messages = runpy.run_path(str(ROOT / "scripts" / "list_messages.py"))["page"](errors.__all__)
    (HERE / "messages.md").write_text(messages, "utf-8")


def _relinked(text: str, folder: Path) -> str:
    """Return the text of a page in `folder`, with links that point into the site or repository."""

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
        return f"[{match['text']}](path:/../{name})" if path.is_file() else match["text"]

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
        entries = ", ".join(f"! {word}" for word in dict.fromkeys(words.split(", ")))
        source[0] = f"{heading}{newline}\n```{{index}} {entries}\n```\n{rest}"


def _relink_included(app: Any, path: Path, docname: str, content: list[str]) -> None:
    content[0] = _relinked(content[0], (HERE / path).parent)


def _frame_drawings(app: Any, doctree: nodes.document, docname: str) -> None:
    """Let wide drawings be scrolled, and embed those that use the colours of the page."""
    for image in list(doctree.findall(nodes.image)):
        path = HERE / image["uri"]
        if path.suffix == ".svg":
            drawing = path.read_text("utf-8")
            if (width := re.search(r'viewBox="0 0 (\d+)', drawing)) and int(width[1]) > _NARROW:
                image.parent["classes"].append("picture")
            if 'class="picture"' in drawing:
                image.replace_self(nodes.raw("", drawing, format="html"))


def _write_llms(app: Any, error: Exception | None) -> None:
    """Write ``llms.txt``, a list of pages and their first sentences for programs to read."""
    if error is not None or app.builder.name != "html":
        return
    lines = ["# mdstorm", "", "> Petastorm's API over MDS shards.", "", "## Pages", ""]
    for page in sorted(app.env.titles):
        if not page.startswith("api/"):
            title, text = app.env.titles[page].astext(), _first_sentences(app.env.get_doctree(page))
            lines.append(f"- [{title}]({page}.html): {text}")
    Path(app.outdir, "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _describe(
    app: Any, docname: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Add a description for search engines to a page, and the ranking script to the search page."""
    if docname == "search":
        app.add_js_file("relevance.js", defer="defer")
    if docname.startswith(f"{_NOTEBOOKS.name}/"):  # copies, which are not to be edited
        context["page_source_suffix"] = ""
    if doctree is not None and (found := _first_sentences(doctree)):
        context["metatags"] += f'<meta name="description" content="{html.escape(found)}" />\n'


def _first_sentences(doctree: nodes.document) -> str:
    """Return as many of a page's first sentences as search engines show, or else its title."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        is_prose = isinstance(paragraph.parent, nodes.section) and not isinstance(
            paragraph.children[0], (nodes.raw, nodes.image)
        )
        if is_prose and len(text) >= _LEAST_DESCRIPTION:
            ends = [match.end() for match in re.finditer(r"[.?!](?= |$)", text)]
            fitting = [end for end in ends if end <= _LONGEST_DESCRIPTION]
            whole = text[: fitting[-1]] if fitting else text.rstrip(":")
            return textwrap.shorten(whole, _LONGEST_DESCRIPTION, placeholder=" …")
    return next(doctree.findall(nodes.title), nodes.title()).astext()


def setup(app: Any) -> None:
    """Connect the functions above to Sphinx."""
    _copy_notebooks()
    _make_pages()
    app.connect("source-read", _relink_page)
    app.connect("include-read", _relink_included)
    app.connect("doctree-resolved", _frame_drawings)
    app.connect("build-finished", _write_llms)
    app.connect("html-page-context", _describe)
