"""The modules that mirror `streaming`: what is there, and what is not."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import mdstorm_backend
from mdstorm_backend.drop_in.absent import ABSENT
from mdstorm_backend.errors import MissingNameError

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "mds_backend" / "mdstorm_backend"
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    for path in (PACKAGE / "streaming").rglob("*.py")
)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_there(name: str) -> None:
    module = importlib.import_module(f"mdstorm_backend.{name}")
    missing = [public for public in getattr(module, "__all__", ()) if not hasattr(module, public)]
    assert not missing


def test_classes_are_those_of_the_engine() -> None:
    from mdstorm_backend.streaming import Stream, StreamingDataLoader, StreamingDataset

    assert Stream is mdstorm_backend.Stream
    assert StreamingDataset is mdstorm_backend.StreamingDataset
    assert StreamingDataLoader is mdstorm_backend.StreamingDataLoader


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("streaming", "CSVWriter"),
        ("streaming.base", "JSONWriter"),
        ("streaming.base.constant", "SHM_TO_CLEAN"),
        ("streaming.base.converters", "SPARK_TO_MDS"),
        ("streaming.base.distributed", "maybe_init_dist"),
        ("streaming.base.format", "reader_from_json"),
        ("streaming.base.format.mds", "MDSReader"),
        ("streaming.base.storage", "OCIUploader"),
        ("streaming.base.storage.download", "HFDownloader"),
        ("streaming.base.storage.upload", "AlipanUploader"),
    ],
)
def test_what_is_absent_names_its_section(module: str, name: str) -> None:
    place = ABSENT.replacement(f"{module}.{name}")
    assert place is not None
    with pytest.raises(MissingNameError, match=re.escape(place)):
        exec(f"from mdstorm_backend.{module} import {name}")
    assert not hasattr(importlib.import_module(f"mdstorm_backend.{module}"), name)


@pytest.mark.parametrize(
    ("module", "section"),
    [
        ("base.batching.random", "registries-and-batching"),
        ("base.format.base.reader", "readers-of-single-shards"),
        ("base.format.xsv.encodings", "json-csv-and-xsv-shards"),
        ("base.registry_utils", "registries-and-batching"),
        ("base.shared.prefix", "shared-memory-and-process-groups"),
    ],
)
def test_a_module_that_is_absent_has_a_section(module: str, section: str) -> None:
    assert ABSENT.replacement(f"streaming.{module}") == f"docs/mosaicml.md#{section}"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"mdstorm_backend.streaming.{module}")


def test_all_sections_are_on_the_page() -> None:
    page = (ROOT / "docs" / "mosaicml.md").read_text("utf-8")
    absent = page.partition("\n## What is not here\n")[2].partition("\n## ")[0]
    headings = re.findall(r"^### (.*)$", absent, re.MULTILINE)
    anchors = {heading.lower().replace(",", "").replace(" ", "-") for heading in headings}
    assert anchors == ABSENT.sections.keys()


def test_what_nobody_has_is_an_attribute_error() -> None:
    for module in ("streaming", "streaming.base", "streaming.base.storage"):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = importlib.import_module(f"mdstorm_backend.{module}").nothing
