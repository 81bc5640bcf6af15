"""What comes with releases of clouds, and with images whose names do not say it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.packaging.bounds import PYTHON as NEEDED
from mdstorm_migrate.packaging.bounds import release
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.pin import PYTHON, Pin

_RELEASE = re.compile(
    r"""\b(?:
      (?P<emr>emr-[567]\.\d+\.\d+)
    | (?:image[-_]?version|imageVersion)["']?[ \t]*[:= ][ \t]*["']?(?P<dataproc>[12]\.\d)(?!\w)
    | (?:glue[-_]?version|GlueVersion)["']?[ \t]*[:= ][ \t]*["']?(?P<glue>\d\.\d)(?![\w.])
    | py_?[vV]ersion["']?[ \t]*[:=][ \t]*["']?py(?P<sagemaker>3\d+)
    )""",
    re.VERBOSE,
)
#: The ``py3`` of SageMaker's estimators for TensorFlow and PyTorch, up to 2.1 and 1.5. Others call
#: newer Pythons so, too; their versions end as ``1.2-1`` does.
_PY3 = re.compile(
    r"""\bpy_version["']?[ \t]*[:=][ \t]*["'](?P<first>py3)["'][^()]*?\bframework_version["']?
    [ \t]*[:=][ \t]*["']\d+\.\d+(?:\.\d+)?["']
    | \bframework_version["']?[ \t]*[:=][ \t]*["']\d+\.\d+(?:\.\d+)?["'][^()]*?
    \bpy_version["']?[ \t]*[:=][ \t]*["'](?P<last>py3)["']""",
    re.VERBOSE,
)
#: The first release of each that has a newer Python, with the older ones before it.
_RELEASES: dict[str, tuple[tuple[str, str], ...]] = {
    "emr": (("7", "3.7"), ("8", "3.9")),
    "dataproc": (("1.5", "3.6"), ("2.0", "3.7"), ("2.1", "3.8")),
    "glue": (("2.0", "3.6"), ("4.0", "3.7")),
}
_IMAGE = re.compile(
    r"""(?<![\w.-])(?P<name>tensorflow/tensorflow|pytorch/pytorch|nvidia/(?:pytorch|tensorflow)|
    apache/airflow|databricksruntime/[\w-]+):(?P<tag>v?(?P<version>\d+\.(?:\d+|x\b))[\w.-]*)""",
    re.VERBOSE,
)
_IMAGES: dict[str, tuple[tuple[str, str], ...]] = {
    "tensorflow/tensorflow": (("2.6", "3.6"), ("2.14", "3.8")),
    "pytorch/pytorch": (("1.13", "3.7"),),
    "nvidia/pytorch": (("20.12", "3.6"), ("23.04", "3.8")),
    "nvidia/tensorflow": (("20.12", "3.6"), ("23.04", "3.8")),
    "apache/airflow": (("2.3", "3.6"), ("2.7", "3.7"), ("2.9", "3.8")),
}
#: Google's images for deep learning, whose newer names say their Python: ``tf2-gpu.2-11.py310``.
_GOOGLE = re.compile(
    r"""\b(?:deeplearning-platform-release|vertex-ai/training)/
    (?P<image>(?P<name>tf2?|pytorch)-[cgx]\w+\.(?P<version>\d+-\d+))(?![\w.-])""",
    re.VERBOSE,
)
_FIRST_OF_GOOGLE = {"pytorch": (1, 13), "tf": (2, 11), "tf2": (2, 11)}
#: Images whose tags say the version of Spark.
_SPARK = re.compile(
    r"""(?<![\w.-])(?:apache|bde2020|bitnami|datamechanics|jupyter|spark-operator)/
    (?P<name>(?:\w+-)*(?:py)?spark(?:-\w+)*:(?:v|spark-)?(?P<version>[23]\.\d+(?:\.\d+)?))(?![\w])""",
    re.VERBOSE,
)
#: Says which Python an image has, or that a file brings another one.
_SAYS = re.compile(r"py(?:thon)?-?3\.?\d")
_BRINGS = re.compile(r"python3?[.-]?(?:3\.)?1\d|conda|pyenv|deadsnakes|\buv[ ]", re.IGNORECASE)
#: In a URL of Airflow's constraints.
_CONSTRAINTS = re.compile(r"/constraints-[\w.]+/constraints-(?:[a-z-]+-)?(?P<version>3\.\d+)\.txt")


def pythons_of_releases(text: str) -> Iterator[Pin]:
    """Yield the Pythons of releases of EMR, Dataproc, Glue, of SageMaker's and others' images."""
    for found in _CONSTRAINTS.finditer(text):
        yield _pin(found, "version", found["version"], "Airflow's constraints")
    if _BRINGS.search(text) is None:
        yield from _of_clouds(text)
    yield from images_with_pythons(text, text)
    for found in _RELEASE.finditer(text):
        if found["sagemaker"] and not is_commented_out(text, found.start(), ANY):
            version = f"3.{found['sagemaker'][1:]}"
            yield _pin(found, "sagemaker", version, f"SageMaker's py{found['sagemaker']}")
    for found in _PY3.finditer(text):
        group = found.lastgroup or ""
        if not is_commented_out(text, found.start(group), ANY):
            yield _pin(found, group, "3.6", "SageMaker's py3")


def sparks_of_images(text: str) -> Iterator[Pin]:
    """Yield the versions of Spark that images bring."""
    for found in _SPARK.finditer(text):
        if not is_commented_out(text, found.start(), ANY):
            span, version = found.span("version"), f"=={found['version']}"
            yield Pin("pyspark", *span, version, is_fixed=True, where=found["name"])


def _of_clouds(text: str) -> Iterator[Pin]:
    for found in _RELEASE.finditer(text):
        name = found.lastgroup or ""
        if name not in _RELEASES or is_commented_out(text, found.start(), ANY):
            continue
        if name == "dataproc" and name not in text.lower():
            continue  # the version of another image
        value = found[name].removeprefix("emr-")
        where = found[name] if name == "emr" else f"{name.title()} {value}"
        yield _pin(found, name, _python(_RELEASES[name], value), where)


def images_with_pythons(text: str, around: str) -> Iterator[Pin]:
    """Yield the Pythons of images, unless what is around them brings another one."""
    return _of_images(text) if _BRINGS.search(around) is None else iter(())


def _of_images(text: str) -> Iterator[Pin]:
    for found in _IMAGE.finditer(text):
        if is_commented_out(text, found.start(), ANY) or _SAYS.search(found["tag"]):
            continue
        where = f"{found['name'].rpartition('/')[2]}:{found['version']}"
        if found["name"].startswith("databricks"):
            yield Pin(PYTHON, *found.span("tag"), found["version"], "runtime", is_fixed=True)
        else:
            yield _pin(found, "tag", _python(_IMAGES[found["name"]], found["version"]), where)
    for found in _GOOGLE.finditer(text):
        first = _FIRST_OF_GOOGLE[found["name"]]
        is_old = release(found["version"].replace("-", ".")) < first
        if is_old and not is_commented_out(text, found.start(), ANY):
            yield _pin(found, "image", "3.7", found["image"])


def _python(table: tuple[tuple[str, str], ...], version: str) -> str:
    known = (python for first, python in table if release(version) < release(first))
    return next(known, NEEDED)


def _pin(found: re.Match[str], group: str, version: str, where: str) -> Pin:
    return Pin(PYTHON, *found.span(group), version, "version", is_fixed=True, where=where)
