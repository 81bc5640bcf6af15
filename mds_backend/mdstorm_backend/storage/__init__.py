"""URLs and files: fsspec file systems, with a fast path for local disks.

A dataset is named by a URL (``file:///data/x``, ``dbfs:/x``, ``s3://bucket/x``, ``memory://x``) or
by a local path. `Location` is one directory behind such a URL.
"""

from __future__ import annotations

from mdstorm_backend.base.plain_files import Buffer
from mdstorm_backend.storage.filesystems import check_scheme, open_filesystem, use_no_executors
from mdstorm_backend.storage.local_files import Arrival, map_file, tag_of
from mdstorm_backend.storage.location import (
    LOCAL_ROOT,
    Location,
    copy_complete,
    modification_of,
    seconds_of,
    version_of,
)
from mdstorm_backend.storage.named_files import (
    MAX_FILE_BYTES,
    FilesBelow,
    NamedFiles,
    identity_of,
)
from mdstorm_backend.storage.object_pins import ObjectPins
from mdstorm_backend.storage.pins import (
    Pin,
    PinnedFile,
    PinnedMap,
    Pins,
    check_map,
    map_of,
    unchanged,
)
from mdstorm_backend.storage.stores.store import bucket_of
from mdstorm_backend.storage.urls import (
    check_no_secrets,
    has_scheme,
    normalize_url,
    url_of,
)

__all__ = [
    "LOCAL_ROOT",
    "MAX_FILE_BYTES",
    "Arrival",
    "Buffer",
    "FilesBelow",
    "Location",
    "NamedFiles",
    "ObjectPins",
    "Pin",
    "PinnedFile",
    "PinnedMap",
    "Pins",
    "bucket_of",
    "check_map",
    "check_no_secrets",
    "check_scheme",
    "copy_complete",
    "has_scheme",
    "identity_of",
    "map_file",
    "map_of",
    "modification_of",
    "normalize_url",
    "open_filesystem",
    "seconds_of",
    "tag_of",
    "unchanged",
    "url_of",
    "use_no_executors",
    "version_of",
]
