"""The servers of the storages and of the catalog, for entries of users."""

from tests.mds_backend.storage.conftest import (  # noqa: F401
    default_cache,
    fresh_filesystems,
    no_credentials,
    s3,
    s3_without_keys,
    started_s3,
)
