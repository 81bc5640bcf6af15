"""MosaicML Streaming modules and names that mdstorm mirrors, and pages about missing ones.

A test compares these tables with the engine's. Each mirrored module also has the names of the
others, because MosaicML Streaming's modules import from each other.
"""

from __future__ import annotations

from fnmatch import fnmatchcase


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ROOT = "streaming"
#: The package that exports the classes most programs use.
FRONT = "mdstorm_backend"
#: The package that has every mirrored module under the same path.
MIRROR = f"{FRONT}.streaming"
#: The names that `FRONT` exports.
FRONT_NAMES = _words(
    """
    LocalDataset MDSWriter Stream StreamingDataLoader StreamingDataset
    """
)

#: Mirrored modules, as paths relative to `ROOT`.
MODULES = _words(
    """
    _version base base.array base.compression base.constant base.converters
    base.converters.dataframe_to_mds base.dataloader base.dataset base.distributed
    base.format base.format.index base.format.mds base.format.mds.encodings
    base.format.mds.reader base.format.mds.writer base.hashing base.local base.partition
    base.partition.orig base.partition.relaxed base.sampling base.shuffle base.shuffle.naive
    base.shuffle.py1br base.shuffle.py1e base.shuffle.py1s base.shuffle.py2s base.spanner
    base.storage base.storage.download base.storage.upload base.stream base.util base.world
    text text.c4 text.enwiki text.pile vision vision.ade20k vision.base vision.cifar10
    vision.coco vision.imagenet
    """
)
#: Names that the mirrored modules define.
NAMES = FRONT_NAMES | _words(
    """
    Array AzureDataLakeDownloader AzureDataLakeUploader AzureDownloader AzureUploader Brotli
    Bytes Bzip2 CloudDownloader CloudUploader Compression DBFSDownloader DBFSUploader
    DEFAULT_TIMEOUT DatabricksUnityCatalogDownloader DatabricksUnityCatalogUploader Encoding
    Float16 Float32 Float64 GCSDownloader GCSUploader Gzip Int Int16 Int32 Int64 Int8 JPEG
    JPEGArray JPEGList JSON List LocalDownloader LocalUploader NDArray PIL PILList PNG
    PNGList Pickle S3Downloader S3Uploader Scalar Snappy Spanner StandardTransform Str
    StrDecimal StrEncoding StrFloat StrInt StreamingADE20K StreamingC4 StreamingCIFAR10
    StreamingCOCO StreamingEnWiki StreamingImageNet StreamingPile StreamingVisionDataset
    UInt16 UInt32 UInt64 UInt8 World Zstandard __version__ _encodings _get_coder
    all_gather_object barrier bytes_to_int clean_stale_shared_memory compress
    dataframe_to_mds decompress download_file get_compression_extension get_compressions
    get_hash get_hashes get_import_exception_message get_index_basename get_list_arg
    get_local_rank get_local_world_size get_mds_encoded_size get_mds_encodings
    get_partitions get_partitions_orig get_partitions_relaxed get_rank get_sampling
    get_shuffle get_shuffle_naive get_shuffle_py1br get_shuffle_py1e get_shuffle_py1s
    get_shuffle_py2s get_world_size infer_dataframe_schema is_compression is_hash
    is_mds_encoding is_mds_encoding_safe mds_decode mds_encode merge_index
    number_abbrev_to_int retry streams_registry text vision
    """
)
#: Missing modules, and missing names (with ``*.`` before them), by section of docs/mosaicml.md.
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


def is_streaming(path: str | None) -> bool:
    """Whether a dotted path is MosaicML Streaming's package or something in it."""
    return path is not None and (path == ROOT or path.startswith(f"{ROOT}."))


def mirrored(path: str) -> str:
    """Return the path in mdstorm of a MosaicML Streaming module."""
    return MIRROR + path.removeprefix(ROOT)


def shortest(path: str) -> str:
    """Return the shortest path in mdstorm of a MosaicML Streaming name."""
    module, _, name = path.rpartition(".")
    is_front = module == ROOT and name in FRONT_NAMES
    return f"{FRONT}.{name}" if is_front else mirrored(path)


def section_of(path: str) -> str | None:
    """Return the section about a missing dotted path, or None if no section mentions the path."""
    below = path.removeprefix(f"{ROOT}.")
    for section, patterns in SECTIONS.items():
        for pattern in patterns.split():
            is_below = not pattern.startswith("*") and below.startswith(f"{pattern}.")
            if is_below or fnmatchcase(below, pattern) or pattern == f"*.{below}":
                return section
    return None


def is_known(path: str) -> bool:
    """Whether a dotted path is a module or name that MosaicML Streaming has."""
    return is_mirrored(path) or section_of(path) is not None


def is_mirrored(path: str) -> bool:
    """Whether mdstorm has a module or name; attributes of names are assumed to exist."""
    below = path.removeprefix(ROOT).removeprefix(".")
    parts = below.split(".") if below else []
    for stop in range(len(parts)):
        module, name = ".".join(parts[:stop]), parts[stop]
        is_module = ".".join(parts[: stop + 1]) in MODULES
        if not is_module and name not in NAMES:
            return False
        if not is_module or (module in MODULES and name in NAMES and name[:1].isupper()):
            return True
    return True
