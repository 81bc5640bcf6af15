"""streaming.base.util: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import merge_index as merge_index
from mdstorm_backend.mosaic.util import bytes_to_int as bytes_to_int
from mdstorm_backend.mosaic.util import clean_stale_shared_memory as clean_stale_shared_memory
from mdstorm_backend.mosaic.util import get_import_exception_message as get_import_exception_message
from mdstorm_backend.mosaic.util import get_list_arg as get_list_arg
from mdstorm_backend.mosaic.util import number_abbrev_to_int as number_abbrev_to_int
from mdstorm_backend.mosaic.util import retry as retry

__all__ = [
    "merge_index",
    "bytes_to_int",
    "clean_stale_shared_memory",
    "get_import_exception_message",
    "get_list_arg",
    "number_abbrev_to_int",
    "retry",
]
