"""Record what TensorFlow's input pipeline waits for, and Python code that takes its batches."""

from __future__ import annotations

from mdstorm_backend.base.recorded_work import STARTED, WAITED
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.loaders.loader_statistics import LOOP, PIPELINE

#: What the consumer of the batches alone knows.
_OF_LOOP = ("batches", "startup_seconds", "waited_seconds", "training_seconds")


class LoopRecorder(Recorder):
    """Records Python code that takes batches, from the first one on."""

    @property
    def is_used(self) -> bool:
        """Whether there is such code: in Keras and ``tf.function`` TensorFlow takes batches."""
        return self.totals()["batches"] > 0


class PipelineRecorder(Recorder):
    """Records TensorFlow's input pipeline, which asks ahead of use.

    Where Python code takes the batches its waiting counts instead; for what it was follows from
    what the pipeline has waited for.

    Parameters
    ----------
    loop : LoopRecorder
        Records that code.
    """

    def __init__(self, loop: LoopRecorder) -> None:
        super().__init__(loop.clock)
        self._loop = loop

    @property
    def consumer(self) -> str:
        """Who takes the batches."""
        return LOOP if self._loop.is_used else PIPELINE

    def totals(self) -> dict[str, float]:
        """Return all numbers so far, by the names of the fields of `Statistics`."""
        totals = super().totals()
        if not self._loop.is_used:
            return totals
        of_pipeline, startup = totals["waited_seconds"], totals["startup_seconds"]
        of_loop = self._loop.totals()
        totals.update({name: of_loop[name] for name in _OF_LOOP})
        # The pipeline waits for nothing after its first block if that is the whole pass.
        scale = of_loop["waited_seconds"] / of_pipeline if of_pipeline else 0.0
        for name in WAITED:
            totals[name] *= scale
        # The pipeline may have begun before the loop.
        scale = min(of_loop["startup_seconds"] / startup, 1.0) if startup else 0.0
        for name in STARTED:
            totals[name] *= scale
        rest = totals["waited_seconds"] - sum(totals[name] for name in WAITED)
        totals["waited_for_batching"] = max(rest, 0.0)
        return totals
