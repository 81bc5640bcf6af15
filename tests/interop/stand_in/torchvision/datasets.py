"""The base class that MosaicML Streaming's vision datasets name in their class statements."""

from typing import Any

from torch.utils.data import Dataset


class VisionDataset(Dataset):  # type: ignore[type-arg]
    """Can be inherited from, as at import; cannot be constructed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("torchvision is not installed here; this is a stand-in for it")
