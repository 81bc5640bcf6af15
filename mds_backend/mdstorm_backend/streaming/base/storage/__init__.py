"""Single files to and from storages: the mirror of ``streaming.base.storage``."""

from __future__ import annotations

from mdstorm_backend.drop_in.absent import ABSENT
from mdstorm_backend.streaming.base.storage.download import (
    AzureDataLakeDownloader,
    AzureDownloader,
    CloudDownloader,
    DatabricksUnityCatalogDownloader,
    DBFSDownloader,
    GCSDownloader,
    LocalDownloader,
    S3Downloader,
    download_file,
)
from mdstorm_backend.streaming.base.storage.upload import (
    AzureDataLakeUploader,
    AzureUploader,
    CloudUploader,
    DatabricksUnityCatalogUploader,
    DBFSUploader,
    GCSUploader,
    LocalUploader,
    S3Uploader,
)

__all__ = [
    "AzureDataLakeDownloader",
    "AzureDataLakeUploader",
    "AzureDownloader",
    "AzureUploader",
    "CloudDownloader",
    "CloudUploader",
    "DBFSDownloader",
    "DBFSUploader",
    "DatabricksUnityCatalogDownloader",
    "DatabricksUnityCatalogUploader",
    "GCSDownloader",
    "GCSUploader",
    "LocalDownloader",
    "LocalUploader",
    "S3Downloader",
    "S3Uploader",
    "download_file",
]

__getattr__ = ABSENT.refusing(__name__)
