"""`CountedPass`: the position of an iteration over a `StreamingDataLoader`, counted in samples.

PyTorch makes the batches if the dataset is not a `StreamingDataset` or overrides ``__iter__``, or
if there is no batch size. The rows of these batches are counted for the state, and each row counts
as one sample of the dataset, as in MosaicML Streaming's loader. Rows are also counted for a dataset
with its own state methods, which expect a number of samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mdstorm_backend.loaders import CONSUMER, Consumer, Epochs
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset
from mdstorm_backend.order import Position


@dataclass
class CountedPass:
    """The position of an iteration, counted in samples.

    Attributes
    ----------
    start : Position or None
        Where the iteration began; None for the beginning of the epoch that began last.
    consumer : Consumer
        The code that takes the batches.
    samples : tuple of int
        Number of samples since `start` after each of the latest batches, ending with the latest
        one.
    is_over : bool
        Whether the end was requested.
    epochs : Epochs or None
        Where the next iteration over the dataset begins; None if the dataset is of another class.
    changes : int
        The value of `Epochs.changes` when the latest batch was taken.
    """

    start: Position | None = None
    consumer: Consumer = field(default_factory=CONSUMER.get)
    samples: tuple[int, ...] = (0,)
    is_over: bool = False
    epochs: Epochs | None = None
    changes: int = 0

    @classmethod
    def over(cls, dataset: object) -> CountedPass:
        """Return the beginning of the next iteration over a dataset."""
        if not isinstance(dataset, StreamingDataset):
            return cls()
        epochs = dataset._mdstorm.epochs
        return cls(epochs.next_position, epochs=epochs, changes=epochs.changes)

    @property
    def is_outdated(self) -> bool:
        """Whether a state was loaded, or an epoch set, since the latest batch."""
        return self.epochs is not None and self.epochs.changes != self.changes

    @property
    def position(self) -> tuple[Position | None, int, bool]:
        """The position after the used batches: where the iteration began, samples, whether over."""
        unused = self.consumer.num_unused
        used = self.samples[max(len(self.samples) - 1 - unused, 0)]
        return self.start, used, self.is_over and not unused
