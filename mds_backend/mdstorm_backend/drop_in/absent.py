"""What of MosaicML Streaming is not here, and the section of docs/mosaicml.md that says so."""

from __future__ import annotations

from mdstorm_backend.errors import MissingNameError

_TEXT_SHARDS = "JSON, CSV and XSV shards"
_SHARED = "Shared memory and process groups"
_READERS = "Readers of single shards"
_SDKS = "Storages"
_DATASETS = "Named datasets"
_TYPES = "Spark types"

#: Name → its section of docs/mosaicml.md.
SECTIONS = {
    "CSVReader": _TEXT_SHARDS,
    "CSVWriter": _TEXT_SHARDS,
    "JSONReader": _TEXT_SHARDS,
    "JSONWriter": _TEXT_SHARDS,
    "TSVReader": _TEXT_SHARDS,
    "TSVWriter": _TEXT_SHARDS,
    "XSVReader": _TEXT_SHARDS,
    "XSVWriter": _TEXT_SHARDS,
    "FileInfo": _READERS,
    "MDSReader": _READERS,
    "Reader": _READERS,
    "reader_from_json": _READERS,
    **dict.fromkeys(("CACHE_FILELOCK", "BARRIER_FILELOCK", "SHM_TO_CLEAN", "RESUME"), _SHARED),
    "maybe_init_dist": _SHARED,
    **{
        f"{storage}{way}": _SDKS
        for way in ("Downloader", "Uploader")
        for storage in ("Alipan", "HF", "OCI", "SFTP")
    },
    "SPARK_TO_MDS": _TYPES,
    "multimodal": _DATASETS,
    "StreamingInsideWebVid": _DATASETS,
    "StreamingOutsideDTWebVid": _DATASETS,
    "StreamingOutsideGIWebVid": _DATASETS,
}


def missing(module: str, name: str) -> Exception:
    """Return the error for a name that `module` does not have.

    Returns
    -------
    MissingNameError or AttributeError
        The first for what MosaicML Streaming has there: ``from … import …`` replaces the text of
        an AttributeError by one of its own, which would not say what to do.
    """
    section = SECTIONS.get(name)
    if section is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return MissingNameError(
        f"cannot import name {name!r} from {module!r}: mdstorm has no counterpart of it. The "
        f"section {section!r} of docs/mosaicml.md says what to use instead"
    )
