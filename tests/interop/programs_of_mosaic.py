"""Where the programs written for MosaicML Streaming are, and what they got from it."""

from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
RECORDED = Path(__file__).with_name("recorded.json")
