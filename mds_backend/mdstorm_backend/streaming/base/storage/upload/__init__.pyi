"""streaming.base.storage.upload: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.transfers import AzureDataLakeUploader as AzureDataLakeUploader
from mdstorm_backend.mosaic.transfers import AzureUploader as AzureUploader
from mdstorm_backend.mosaic.transfers import CloudUploader as CloudUploader
from mdstorm_backend.mosaic.transfers import DBFSUploader as DBFSUploader
from mdstorm_backend.mosaic.transfers import DatabricksUnityCatalogUploader as DatabricksUnityCatalogUploader
from mdstorm_backend.mosaic.transfers import GCSUploader as GCSUploader
from mdstorm_backend.mosaic.transfers import LocalUploader as LocalUploader
from mdstorm_backend.mosaic.transfers import S3Uploader as S3Uploader

__all__ = [
    "AzureDataLakeUploader",
    "AzureUploader",
    "CloudUploader",
    "DBFSUploader",
    "DatabricksUnityCatalogUploader",
    "GCSUploader",
    "LocalUploader",
    "S3Uploader",
]
