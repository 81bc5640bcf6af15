"""streaming.base.shuffle: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_shuffle as get_shuffle
from mdstorm_backend.mosaic.util import get_shuffle_naive as get_shuffle_naive
from mdstorm_backend.mosaic.util import get_shuffle_py1br as get_shuffle_py1br
from mdstorm_backend.mosaic.util import get_shuffle_py1e as get_shuffle_py1e
from mdstorm_backend.mosaic.util import get_shuffle_py1s as get_shuffle_py1s
from mdstorm_backend.mosaic.util import get_shuffle_py2s as get_shuffle_py2s
from mdstorm_backend.streaming.base.shuffle import naive as naive
from mdstorm_backend.streaming.base.shuffle import py1br as py1br
from mdstorm_backend.streaming.base.shuffle import py1e as py1e
from mdstorm_backend.streaming.base.shuffle import py1s as py1s
from mdstorm_backend.streaming.base.shuffle import py2s as py2s

__all__ = [
    "get_shuffle",
    "get_shuffle_naive",
    "get_shuffle_py1br",
    "get_shuffle_py1e",
    "get_shuffle_py1s",
    "get_shuffle_py2s",
]
