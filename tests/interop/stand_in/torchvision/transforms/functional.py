"""The one function that MosaicML Streaming's vision datasets import."""

from typing import Any


def to_tensor(picture: Any) -> Any:
    """Refuse: nothing that is compared with here converts pictures."""
    raise NotImplementedError("torchvision is not installed here; this is a stand-in for it")
