"""streaming.base.storage: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.files import AzureDataLakeDownloader as AzureDataLakeDownloader
from mdstorm_backend.mosaic.files import AzureDownloader as AzureDownloader
from mdstorm_backend.mosaic.files import CloudDownloader as CloudDownloader
from mdstorm_backend.mosaic.files import DBFSDownloader as DBFSDownloader
from mdstorm_backend.mosaic.files import DatabricksUnityCatalogDownloader as DatabricksUnityCatalogDownloader
from mdstorm_backend.mosaic.files import GCSDownloader as GCSDownloader
from mdstorm_backend.mosaic.files import LocalDownloader as LocalDownloader
from mdstorm_backend.mosaic.files import S3Downloader as S3Downloader
from mdstorm_backend.mosaic.files import download_file as download_file
from mdstorm_backend.mosaic.files import AzureDataLakeUploader as AzureDataLakeUploader
from mdstorm_backend.mosaic.files import AzureUploader as AzureUploader
from mdstorm_backend.mosaic.files import CloudUploader as CloudUploader
from mdstorm_backend.mosaic.files import DBFSUploader as DBFSUploader
from mdstorm_backend.mosaic.files import DatabricksUnityCatalogUploader as DatabricksUnityCatalogUploader
from mdstorm_backend.mosaic.files import GCSUploader as GCSUploader
from mdstorm_backend.mosaic.files import LocalUploader as LocalUploader
from mdstorm_backend.mosaic.files import S3Uploader as S3Uploader
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
