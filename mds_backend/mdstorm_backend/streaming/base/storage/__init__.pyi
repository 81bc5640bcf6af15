"""streaming.base.storage: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.transfers import AzureDataLakeDownloader as AzureDataLakeDownloader
from mdstorm_backend.mosaic.transfers import AzureDownloader as AzureDownloader
from mdstorm_backend.mosaic.transfers import CloudDownloader as CloudDownloader
from mdstorm_backend.mosaic.transfers import DBFSDownloader as DBFSDownloader
from mdstorm_backend.mosaic.transfers import DatabricksUnityCatalogDownloader as DatabricksUnityCatalogDownloader
from mdstorm_backend.mosaic.transfers import GCSDownloader as GCSDownloader
from mdstorm_backend.mosaic.transfers import LocalDownloader as LocalDownloader
from mdstorm_backend.mosaic.transfers import S3Downloader as S3Downloader
from mdstorm_backend.mosaic.transfers import download_file as download_file
from mdstorm_backend.mosaic.transfers import AzureDataLakeUploader as AzureDataLakeUploader
from mdstorm_backend.mosaic.transfers import AzureUploader as AzureUploader
from mdstorm_backend.mosaic.transfers import CloudUploader as CloudUploader
from mdstorm_backend.mosaic.transfers import DBFSUploader as DBFSUploader
from mdstorm_backend.mosaic.transfers import DatabricksUnityCatalogUploader as DatabricksUnityCatalogUploader
from mdstorm_backend.mosaic.transfers import GCSUploader as GCSUploader
from mdstorm_backend.mosaic.transfers import LocalUploader as LocalUploader
from mdstorm_backend.mosaic.transfers import S3Uploader as S3Uploader
from mdstorm_backend.streaming.base.storage import download as download
from mdstorm_backend.streaming.base.storage import upload as upload

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
    "AzureDataLakeUploader",
    "AzureUploader",
    "CloudUploader",
    "DBFSUploader",
    "DatabricksUnityCatalogUploader",
    "GCSUploader",
    "LocalUploader",
    "S3Uploader",
]
