"""What came in through Petastorm, and which other distributions bring the same."""

from __future__ import annotations

from collections.abc import Collection

#: What Petastorm required, and the modules of each.
BROUGHT = {
    "dill": ("dill",),
    "diskcache": ("diskcache",),
    "future": ("future", "past"),
    "packaging": ("packaging",),
    "pandas": ("pandas",),
    "psutil": ("psutil",),
    "pyspark": ("pyspark",),
    "pyzmq": ("zmq",),
    "six": ("six",),
}
#: Other distributions that bring the libraries of an extra in.
_SAME = {
    "pyspark": {"databricks-connect", "pyspark-client", "pyspark-connect"},
    "tensorflow": {"tensorflow-cpu", "tensorflow-gpu", "tensorflow-macos", "tf-nightly"},
    "torch": {"pytorch", "pytorch-gpu"},
    "pillow": {"pillow-simd"},
    "opencv-python": {"opencv-python-headless", "opencv-contrib-python", "opencv", "py-opencv"},
}


def is_in(name: str, names: Collection[str]) -> bool:
    """Whether a distribution, or another one that brings the same, is among some names."""
    return not {name, *_SAME.get(name, ())}.isdisjoint(names)
