"""streaming.text: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StreamingC4 as StreamingC4
from mdstorm_backend.mosaic.named_datasets import StreamingEnWiki as StreamingEnWiki
from mdstorm_backend.mosaic.named_datasets import StreamingPile as StreamingPile
from mdstorm_backend.streaming.text import c4 as c4
from mdstorm_backend.streaming.text import enwiki as enwiki
from mdstorm_backend.streaming.text import pile as pile

__all__ = [
    "StreamingC4",
    "StreamingEnWiki",
    "StreamingPile",
]
