"""`install_as_streaming`: run programs that import `streaming` on mdstorm, without edits.

The tables list which modules of the engine define MosaicML Streaming's names, and which sections of
the docs list the names that mdstorm does not have.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from mdstorm_backend.drop_in.absent_names import AbsentNames
from mdstorm_backend.drop_in.stand_in import StandIn

_PACKAGE = "mdstorm_backend.streaming"

#: Section of the page → the names that it covers, which mdstorm does not have.
SECTIONS = {
    "json-csv-and-xsv-shards": (
        "base.format.json base.format.xsv *.CSVReader *.CSVWriter *.JSONReader *.JSONWriter "
        "*.TSVReader *.TSVWriter *.XSVReader *.XSVWriter"
    ),
    "shared-memory-and-process-groups": (
        "*.BARRIER *.BARRIER_FILELOCK *.CACHE_FILELOCK *.CACHE_USAGE *.EPOCH_DATA *.EPOCH_SHAPE "
        "*.LOCALS *.NEXT_EPOCH *.RESUME *.SHARD_ACCESS_TIMES *.SHARD_STATES *.SHM_TO_CLEAN "
        "*.all_gather *.broadcast *.maybe_init_dist base.shared"
    ),
    "readers-of-single-shards": (
        "base.format.base *.FileInfo *.MDSReader *.Reader *.TICK *.reader_from_json "
        "*.wait_for_file_to_exist"
    ),
    "registries-and-batching": "base.batching base.registry_utils",
    "steps-of-an-order": "*.algos *.divide_spans",
    "storage-clients": (
        "*.DOWNLOADER_MAPPINGS *.UPLOADERS *.AlipanDownloader *.AlipanUploader *.HFDownloader "
        "*.HFUploader *.OCIDownloader *.OCIUploader *.SFTPDownloader *.SFTPUploader"
    ),
    "spark-types": "*.SPARK_TO_MDS *.is_json_compatible",
    "named-datasets": (
        "multimodal *.StreamingInsideWebVid *.StreamingOutsideDTWebVid *.StreamingOutsideGIWebVid"
    ),
}

ABSENT = AbsentNames(
    "streaming",
    _PACKAGE,
    "docs/mosaicml.md",
    {section: tuple(names.split()) for section, names in SECTIONS.items()},
)


def _of(home: str, names: str) -> dict[str, str]:
    """Map each of `names` to the engine's module `home`, which defines it."""
    return dict.fromkeys(names.split(), f"mdstorm_backend.{home}".rstrip("."))


CLASSES = _of("", "LocalDataset MDSWriter Stream StreamingDataLoader StreamingDataset")
_CONVERTERS = {
    **_of("spark.dataframe_to_mds", "dataframe_to_mds"),
    **_of("mosaic.util", "infer_dataframe_schema"),
}
_DOWNLOADERS = _of(
    "mosaic.files",
    "AzureDataLakeDownloader AzureDownloader CloudDownloader DBFSDownloader "
    "DatabricksUnityCatalogDownloader GCSDownloader LocalDownloader S3Downloader download_file",
)
_UPLOADERS = _of(
    "mosaic.files",
    "AzureDataLakeUploader AzureUploader CloudUploader DBFSUploader "
    "DatabricksUnityCatalogUploader GCSUploader LocalUploader S3Uploader",
)

#: Path of each module below the package → names in that module → the module that defines each name.
#: A name that maps to its own module is a submodule.
MODULES: dict[str, dict[str, str]] = {
    "": {**CLASSES, "text": _PACKAGE, "vision": _PACKAGE},
    "_version": {"__version__": _PACKAGE},
    "base": CLASSES,
    "base.array": _of("datasets.sample_access", "Array"),
    "base.compression": _of(
        "mosaic.files",
        "Brotli Bzip2 Compression Gzip Snappy Zstandard compress decompress "
        "get_compression_extension get_compressions is_compression",
    ),
    "base.constant": _of("mosaic.util", "DEFAULT_TIMEOUT"),
    "base.converters": _CONVERTERS,
    "base.converters.dataframe_to_mds": _CONVERTERS,
    "base.dataloader": _of("", "StreamingDataLoader"),
    "base.dataset": _of("", "StreamingDataset"),
    "base.distributed": _of(
        "mosaic.util",
        "all_gather_object barrier get_local_rank get_local_world_size get_rank get_world_size",
    ),
    "base.format": {**_of("", "MDSWriter"), **_of("mosaic.util", "get_index_basename")},
    "base.format.index": _of("mosaic.util", "get_index_basename"),
    "base.format.mds": _of("", "MDSWriter"),
    "base.format.mds.reader": {},
    "base.format.mds.writer": _of("", "MDSWriter"),
    "base.format.mds.encodings": {
        **_of(
            "mosaic.encodings",
            "Bytes Encoding Float16 Float32 Float64 Int Int8 Int16 Int32 Int64 JPEG JPEGArray "
            "JPEGList JSON List NDArray PIL PILList PNG PNGList Pickle Scalar Str StrDecimal "
            "StrEncoding StrFloat StrInt UInt8 UInt16 UInt32 UInt64",
        ),
        **_of(
            "mosaic.encodings",
            "_encodings _get_coder get_mds_encoded_size get_mds_encodings is_mds_encoding "
            "is_mds_encoding_safe mds_decode mds_encode",
        ),
    },
    "base.hashing": _of("mosaic.files", "get_hash get_hashes is_hash"),
    "base.local": _of("", "LocalDataset"),
    "base.partition": _of(
        "mosaic.util", "get_partitions get_partitions_orig get_partitions_relaxed"
    ),
    "base.partition.orig": _of("mosaic.util", "get_partitions_orig"),
    "base.partition.relaxed": _of("mosaic.util", "get_partitions_relaxed"),
    "base.sampling": _of("mosaic.util", "get_sampling"),
    "base.shuffle": _of(
        "mosaic.util",
        "get_shuffle get_shuffle_naive get_shuffle_py1br get_shuffle_py1e get_shuffle_py1s "
        "get_shuffle_py2s",
    ),
    **{
        f"base.shuffle.{algorithm}": _of("mosaic.util", f"get_shuffle_{algorithm}")
        for algorithm in ("naive", "py1br", "py1e", "py1s", "py2s")
    },
    "base.spanner": _of("datasets.sample_access", "Spanner"),
    "base.storage": {**_DOWNLOADERS, **_UPLOADERS},
    "base.storage.download": _DOWNLOADERS,
    "base.storage.upload": _UPLOADERS,
    "base.stream": _of("", "Stream streams_registry"),
    "base.util": {
        **_of("", "merge_index"),
        **_of(
            "mosaic.util",
            "bytes_to_int clean_stale_shared_memory get_import_exception_message get_list_arg "
            "number_abbrev_to_int retry",
        ),
    },
    "base.world": _of("datasets.stream", "World"),
    "text": _of("mosaic.named_datasets", "StreamingC4 StreamingEnWiki StreamingPile"),
    "text.c4": _of("mosaic.named_datasets", "StreamingC4"),
    "text.enwiki": _of("mosaic.named_datasets", "StreamingEnWiki"),
    "text.pile": _of("mosaic.named_datasets", "StreamingPile"),
    "vision": _of(
        "mosaic.named_datasets", "StreamingADE20K StreamingCIFAR10 StreamingCOCO StreamingImageNet"
    ),
    "vision.ade20k": _of("mosaic.named_datasets", "StreamingADE20K"),
    "vision.base": _of("mosaic.named_datasets", "StandardTransform StreamingVisionDataset"),
    "vision.cifar10": _of("mosaic.named_datasets", "StreamingCIFAR10"),
    "vision.coco": _of("mosaic.named_datasets", "StreamingCOCO"),
    "vision.imagenet": _of("mosaic.named_datasets", "StreamingImageNet"),
}


_HOMES = {name: home for names in MODULES.values() for name, home in names.items()}


_STREAMING = StandIn(
    absent=ABSENT,
    version="0.13.0",
    shim=Path(__file__).parent / "shim" / "streaming.py",
    remedy="Call mdstorm_backend.install_as_streaming() first, before anything imports streaming",
)


def install_as_streaming() -> None:
    """Make ``import streaming`` import mdstorm in place of MosaicML Streaming.

    From then on, `streaming` and its modules are the ones of `mdstorm_backend.streaming`: the same
    module and class objects under both names. This holds

    - in this process, and its forks;
    - in Python processes that it starts (`multiprocessing`, workers of a torch ``DataLoader``,
      `subprocess` with the inherited environment): a folder that holds only a shim for `streaming`
      is added to ``PYTHONPATH`` and `sys.path`;
    - in Spark's workers, where mdstorm must also be installed: existing and future sessions get the
      shim with ``addPyFile``, on Spark Connect with ``addArtifact``;
    - for pickles that name the modules of `streaming`.

    ``streaming.__version__`` is 0.13.0, the version of the API. Importing a name that is missing
    raises an error that refers to the page on what to use instead.

    Call it before the first ``import streaming``; calling it again does nothing. It imports neither
    pyspark nor a framework.

    Raises
    ------
    AlreadyImportedError
        If the real MosaicML Streaming was already imported, because its classes may be in use. Also
        an `ImportError`.
    """
    _STREAMING.install()


def exports(path: str) -> list[str]:
    """Return the public names of the module with this path below the package."""
    return [name for name in MODULES[path] if not name.startswith("_")]


def submodules(path: str) -> list[str]:
    """Return the names of the direct submodules of a module."""
    paths = (other.rpartition(".") for other in MODULES if other)
    return [name for above, _, name in paths if above == path]


def mirror_from(package: ModuleType) -> None:
    """Add the library's names and modules to `mdstorm_backend.streaming` during its import."""
    package.__class__ = MirrorModule
    vars(package)["__all__"] = exports("")
    stubs = Path(package.__file__ or "").parent
    for path in filter(None, MODULES):
        name = f"{_PACKAGE}.{path}"
        stub = str(stubs.joinpath(*path.split("."), "__init__.pyi"))
        spec = ModuleSpec(name, None, origin=stub, is_package=bool(submodules(path)))
        module = MirrorModule(name, f"The mirror of ``streaming.{path}``.")
        vars(module).update(__all__=exports(path), __file__=stub, __spec__=spec)
        if submodules(path):
            module.__path__ = []
        sys.modules.setdefault(name, module)


class MirrorModule(ModuleType):
    """A mirror of the library's module that has the same path.

    It has its own names and, as the library's modules import from each other, the names of all
    others. They are loaded on first use: some need PyTorch, which programs that only write do not
    need.
    """

    def __getattr__(self, name: str) -> Any:
        path = self.__name__.removeprefix(_PACKAGE).removeprefix(".")
        home = MODULES[path].get(name)
        if home in (None, self.__name__) and name in submodules(path):
            value = sys.modules[f"{self.__name__}.{name}"]
        elif (home := home or _HOMES.get(name)) is not None:
            value = getattr(importlib.import_module(home), name)
        else:
            raise ABSENT.error(self.__name__, name, sys._getframe(1))
        vars(self)[name] = value
        return value

    def __dir__(self) -> list[str]:
        path = self.__name__.removeprefix(_PACKAGE).removeprefix(".")
        return sorted({*vars(self), *self.__all__, *submodules(path)})
