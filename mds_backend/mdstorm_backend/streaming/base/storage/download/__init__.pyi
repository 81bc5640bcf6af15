"""streaming.base.storage.download: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.files import AzureDataLakeDownloader as AzureDataLakeDownloader
from mdstorm_backend.mosaic.files import AzureDownloader as AzureDownloader
from mdstorm_backend.mosaic.files import CloudDownloader as CloudDownloader
from mdstorm_backend.mosaic.files import DBFSDownloader as DBFSDownloader
from mdstorm_backend.mosaic.files import DatabricksUnityCatalogDownloader as DatabricksUnityCatalogDownloader
from mdstorm_backend.mosaic.files import GCSDownloader as GCSDownloader
from mdstorm_backend.mosaic.files import LocalDownloader as LocalDownloader
from mdstorm_backend.mosaic.files import S3Downloader as S3Downloader
from mdstorm_backend.mosaic.files import download_file as download_file

__all__ = [
    "AzureDataLakeDownloader",
    "AzureDownloader",
    "CloudDownloader",
    "DBFSDownloader",
    "DatabricksUnityCatalogDownloader",
    "GCSDownloader",
    "LocalDownloader",
    "S3Downloader",
    "download_file",
]
