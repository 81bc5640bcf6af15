"""streaming.base.storage.upload: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.files import AzureDataLakeUploader as AzureDataLakeUploader
from mdstorm_backend.mosaic.files import AzureUploader as AzureUploader
from mdstorm_backend.mosaic.files import CloudUploader as CloudUploader
from mdstorm_backend.mosaic.files import DBFSUploader as DBFSUploader
from mdstorm_backend.mosaic.files import DatabricksUnityCatalogUploader as DatabricksUnityCatalogUploader
from mdstorm_backend.mosaic.files import GCSUploader as GCSUploader
from mdstorm_backend.mosaic.files import LocalUploader as LocalUploader
from mdstorm_backend.mosaic.files import S3Uploader as S3Uploader

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
