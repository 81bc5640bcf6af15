"""`install_as_streaming`: run programs that import `streaming` on mdstorm, unedited."""

from __future__ import annotations

from pathlib import Path

from mdstorm_backend.drop_in.stand_in import StandIn
from mdstorm_backend.drop_in.streaming_names import ABSENT

_STREAMING = StandIn(
    absent=ABSENT,
    version="0.13.0",
    shim=Path(__file__).parent / "shim" / "streaming.py",
    remedy="Call mdstorm_backend.install_as_streaming() first, before anything imports streaming",
)


def install_as_streaming() -> None:
    """Make ``import streaming`` import mdstorm, in the place of MosaicML Streaming.

    From then on `streaming` and its modules are those of `mdstorm_backend.streaming`: the same
    module and class objects under both names. This holds

    - in this process, and its forks;
    - in Python processes that it starts (`multiprocessing`, workers of a torch ``DataLoader``,
      `subprocess` with the inherited environment): a folder that holds only a shim for `streaming`
      is added to ``PYTHONPATH`` and `sys.path`;
    - in Spark's workers, where mdstorm must also be installed: existing and future sessions get the
      shim with ``addPyFile``, on Spark Connect with ``addArtifact``;
    - for pickles that name the modules of `streaming`.

    ``streaming.__version__`` is 0.13.0, the release whose API this is. What mdstorm lacks cannot be
    imported; the error names the page that says what to use instead.

    Call it before the first ``import streaming``; calling it again does nothing. It imports neither
    pyspark nor a framework.

    Raises
    ------
    AlreadyImportedError
        If the real MosaicML Streaming was imported already: its classes may be in use. An
        `ImportError`.
    """
    _STREAMING.install()
