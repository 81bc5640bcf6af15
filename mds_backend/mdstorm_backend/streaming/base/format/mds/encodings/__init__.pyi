"""streaming.base.format.mds.encodings: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.encodings import Bytes as Bytes
from mdstorm_backend.mosaic.encodings import Encoding as Encoding
from mdstorm_backend.mosaic.encodings import Float16 as Float16
from mdstorm_backend.mosaic.encodings import Float32 as Float32
from mdstorm_backend.mosaic.encodings import Float64 as Float64
from mdstorm_backend.mosaic.encodings import Int as Int
from mdstorm_backend.mosaic.encodings import Int8 as Int8
from mdstorm_backend.mosaic.encodings import Int16 as Int16
from mdstorm_backend.mosaic.encodings import Int32 as Int32
from mdstorm_backend.mosaic.encodings import Int64 as Int64
from mdstorm_backend.mosaic.encodings import JPEG as JPEG
from mdstorm_backend.mosaic.encodings import JPEGArray as JPEGArray
from mdstorm_backend.mosaic.encodings import JPEGList as JPEGList
from mdstorm_backend.mosaic.encodings import JSON as JSON
from mdstorm_backend.mosaic.encodings import List as List
from mdstorm_backend.mosaic.encodings import NDArray as NDArray
from mdstorm_backend.mosaic.encodings import PIL as PIL
from mdstorm_backend.mosaic.encodings import PILList as PILList
from mdstorm_backend.mosaic.encodings import PNG as PNG
from mdstorm_backend.mosaic.encodings import PNGList as PNGList
from mdstorm_backend.mosaic.encodings import Pickle as Pickle
from mdstorm_backend.mosaic.encodings import Scalar as Scalar
from mdstorm_backend.mosaic.encodings import Str as Str
from mdstorm_backend.mosaic.encodings import StrDecimal as StrDecimal
from mdstorm_backend.mosaic.encodings import StrEncoding as StrEncoding
from mdstorm_backend.mosaic.encodings import StrFloat as StrFloat
from mdstorm_backend.mosaic.encodings import StrInt as StrInt
from mdstorm_backend.mosaic.encodings import UInt8 as UInt8
from mdstorm_backend.mosaic.encodings import UInt16 as UInt16
from mdstorm_backend.mosaic.encodings import UInt32 as UInt32
from mdstorm_backend.mosaic.encodings import UInt64 as UInt64
from mdstorm_backend.mosaic.encodings import _encodings as _encodings
from mdstorm_backend.mosaic.encodings import _get_coder as _get_coder
from mdstorm_backend.mosaic.encodings import get_mds_encoded_size as get_mds_encoded_size
from mdstorm_backend.mosaic.encodings import get_mds_encodings as get_mds_encodings
from mdstorm_backend.mosaic.encodings import is_mds_encoding as is_mds_encoding
from mdstorm_backend.mosaic.encodings import is_mds_encoding_safe as is_mds_encoding_safe
from mdstorm_backend.mosaic.encodings import mds_decode as mds_decode
from mdstorm_backend.mosaic.encodings import mds_encode as mds_encode

__all__ = [
    "Bytes",
    "Encoding",
    "Float16",
    "Float32",
    "Float64",
    "Int",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "JPEG",
    "JPEGArray",
    "JPEGList",
    "JSON",
    "List",
    "NDArray",
    "PIL",
    "PILList",
    "PNG",
    "PNGList",
    "Pickle",
    "Scalar",
    "Str",
    "StrDecimal",
    "StrEncoding",
    "StrFloat",
    "StrInt",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "get_mds_encoded_size",
    "get_mds_encodings",
    "is_mds_encoding",
    "is_mds_encoding_safe",
    "mds_decode",
    "mds_encode",
]
