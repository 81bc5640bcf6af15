from .data import FrameLoader  # noqa
