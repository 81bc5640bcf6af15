"""Names of MosaicML Streaming that mdstorm lacks, and the sections of the docs about them."""

from __future__ import annotations

from mdstorm_backend.drop_in.absent_names import AbsentNames

_SECTIONS: dict[str, tuple[str, ...]] = {
    "json-csv-and-xsv-shards": (
        "base.format.json",
        "base.format.xsv",
        *(
            f"*.{kind}{way}"
            for kind in ("CSV", "JSON", "TSV", "XSV")
            for way in ("Reader", "Writer")
        ),
    ),
    "shared-memory-and-process-groups": (
        "*.BARRIER_FILELOCK",
        "*.CACHE_FILELOCK",
        "*.RESUME",
        "*.SHM_TO_CLEAN",
        "*.maybe_init_dist",
        "base.shared",
    ),
    "readers-of-single-shards": (
        "base.format.base",
        "*.FileInfo",
        "*.MDSReader",
        "*.Reader",
        "*.reader_from_json",
    ),
    "registries-and-batching": ("base.batching", "base.registry_utils"),
    "storages": tuple(
        f"*.{storage}{way}"
        for storage in ("Alipan", "HF", "OCI", "SFTP")
        for way in ("Downloader", "Uploader")
    ),
    "spark-types": ("*.SPARK_TO_MDS",),
    "named-datasets": (
        "multimodal",
        "*.StreamingInsideWebVid",
        "*.StreamingOutsideDTWebVid",
        "*.StreamingOutsideGIWebVid",
    ),
}

ABSENT = AbsentNames("streaming", "mdstorm_backend.streaming", "docs/mosaicml.md", _SECTIONS)
