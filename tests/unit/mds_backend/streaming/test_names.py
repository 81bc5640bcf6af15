"""The existing and missing names in the modules that mirror `streaming`."""

import importlib
import importlib.util
import inspect
import re
import runpy
from pathlib import Path

import pytest
from tests.kit.programs import run_program

import mdstorm_backend
import mdstorm_backend.streaming
from mdstorm_backend.errors import MissingNameError
from mdstorm_backend.mosaic.mirror import ABSENT, MODULES

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("path", MODULES)
def test_each_module_exports_the_names_listed_for_it(path: str) -> None:
    module = importlib.import_module(f"mdstorm_backend.streaming.{path}".rstrip("."))
    assert [name for name in MODULES[path] if not hasattr(module, name)] == []
    assert {*MODULES[path]} <= {*dir(module)}
    assert importlib.util.find_spec(module.__name__) is not None


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(
            (f"{path}", "StreamingDataset")
            for path in ("text.enwiki", "vision.base", "vision.coco")
        ),
        *((f"vision.{name}", "StreamingVisionDataset") for name in ("cifar10", "imagenet")),
        *(("base.dataset", "DEFAULT_TIMEOUT"), ("base.shuffle.py1e", "get_shuffle_py1e")),
        *(
            ("base.format.mds.reader", "mds_decode"),
            ("base.format.mds.writer", "get_mds_encodings"),
        ),
    ],
)
def test_reexported_names_can_be_imported(module: str, name: str) -> None:
    exec(f"from mdstorm_backend.streaming.{module} import {name}")


def test_module_source_can_be_inspected() -> None:
    module = importlib.import_module("mdstorm_backend.streaming.base.partition.orig")
    assert "get_partitions_orig" in inspect.getsource(module), inspect.getfile(module)


def test_committed_stubs_equal_the_generated_stubs() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "make_streaming_stubs.py"))
    written = {
        path.relative_to(script["TARGET"]): path.read_text("utf-8")
        for path in script["TARGET"].rglob("*.pyi")
    }
    assert written == script["stubs"](), "run scripts/make_streaming_stubs.py"


@pytest.mark.parametrize("first", ["converters", "converters.dataframe_to_mds"])
def test_function_with_same_name_as_its_module_can_be_imported(first: str, tmp_path: Path) -> None:
    program = f"""
import mdstorm_backend.streaming.base.{first}
import mdstorm_backend.streaming.base.converters.dataframe_to_mds
from mdstorm_backend.streaming.base.converters import dataframe_to_mds
assert dataframe_to_mds is mdstorm_backend.dataframe_to_mds
"""
    run_program(program, cwd=tmp_path)


def test_numpy_is_imported_only_when_a_name_is_used(tmp_path: Path) -> None:
    program = """
import sys
import mdstorm_backend.streaming.base.dataset
import mdstorm_backend.streaming.base.format as module
assert not {"numpy", "torch"} & {*sys.modules}
module.MDSWriter
assert "numpy" in sys.modules
"""
    run_program(program, cwd=tmp_path)


def test_star_import_from_streaming_provides_mdstorm_backend_classes() -> None:
    names: dict[str, object] = {}
    exec("from mdstorm_backend.streaming import *", names)
    assert {"text", "vision"} <= names.keys()
    for name in ("Stream", "StreamingDataset", "StreamingDataLoader"):
        assert names[name] is getattr(mdstorm_backend, name)
    assert "_encodings" not in mdstorm_backend.streaming.base.format.mds.encodings.__all__


#: Names of shared-memory segments, which mdstorm does not have.
SEGMENTS = (
    *("BARRIER", "CACHE_USAGE", "EPOCH_DATA", "EPOCH_SHAPE", "LOCALS", "NEXT_EPOCH"),
    *("SHARD_ACCESS_TIMES", "SHARD_STATES"),
)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("streaming", "CSVWriter"), ("streaming.base", "JSONWriter")),
        *(
            ("streaming.base.constant", "SHM_TO_CLEAN"),
            ("streaming.base.constant", "TICK"),
            ("streaming.base.util", "wait_for_file_to_exist"),
        ),
        *(("streaming.base.converters", name) for name in ("SPARK_TO_MDS", "is_json_compatible")),
        *(
            ("streaming.base.distributed", name)
            for name in ("all_gather", "broadcast", "maybe_init_dist")
        ),
        *(("streaming.base.constant", name) for name in SEGMENTS),
        *((f"streaming.base.{module}", "algos") for module in ("shuffle", "partition")),
        ("streaming.base.shuffle.py1s", "divide_spans"),
        *((f"streaming.base.format.mds{module}", "MDSReader") for module in ("", ".reader")),
        *(("streaming.base.format", "reader_from_json"), ("streaming.base.storage", "OCIUploader")),
        ("streaming.base.storage.download", "HFDownloader"),
        *(("streaming.base.storage.upload", name) for name in ("AlipanUploader", "UPLOADERS")),
    ],
)
def test_missing_name_raises_error_linking_to_its_documentation_section(
    module: str, name: str
) -> None:
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
def test_missing_module_raises_error_linking_to_its_documentation_section(
    module: str, section: str
) -> None:
    assert ABSENT.replacement(f"streaming.{module}") == f"docs/mosaicml.md#{section}"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"mdstorm_backend.streaming.{module}")


def test_documentation_sections_linked_in_errors_exist() -> None:
    page = (ROOT / "docs" / "mosaicml.md").read_text("utf-8")
    absent = page.partition("\n## Missing parts\n")[2].partition("\n## ")[0]
    headings = re.findall(r"^### (.*)$", absent, re.MULTILINE)
    anchors = {heading.lower().replace(",", "").replace(" ", "-") for heading in headings}
    assert anchors == ABSENT.sections.keys()


def test_unknown_name_raises_attribute_error() -> None:
    for module in ("streaming", "streaming.base", "streaming.base.storage"):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = importlib.import_module(f"mdstorm_backend.{module}").nothing
