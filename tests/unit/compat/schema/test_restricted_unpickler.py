"""Schema and index pickles are read in all of Petastorm's forms without executing code."""

import os
import pickle
import pickletools
import struct
import subprocess
import sys
import tracemalloc
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.unit.compat.schema.pickles import EVERYTHING, Calls, calling, protocol_0

from mdstorm import codecs, unischema
from mdstorm._pickles import dump_unischema, load_indexes, load_unischema
from mdstorm.errors import PetastormMetadataError, UnsafePickleError
from mdstorm.unischema import Unischema, UnischemaField

TYPES = pytest.importorskip("pyspark.sql.types")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_schema_is_read_from_every_pickle_protocol(protocol: int) -> None:
    found = load_unischema(pickle.dumps(EVERYTHING, protocol))
    assert str(found) == str(EVERYTHING)
    assert list(found.fields.values()) == list(EVERYTHING.fields.values())


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(
    "root", ["petastorm", "av.experimental.deepdrive.dataset_toolkit", "av.ml.dataset_toolkit"]
)
def test_schemas_from_python_2_and_older_package_names_are_read(root: str, restored: bool) -> None:
    schema = load_unischema(protocol_0(root=root, restored=restored))
    assert str(schema) == (
        "Unischema(Old, [\n"
        "  UnischemaField('id', int64, (), ScalarCodec(LongType()), False),\n"
        "  UnischemaField('im', uint8, (32, None, 3), CompressedImageCodec('png', 80), True),\n"
        "])"
    )


def test_unknown_spark_namedtuple_raises_error() -> None:
    data = protocol_0(restored=True).replace(b"S'UnischemaField'", b"S'Field'")
    with pytest.raises(UnsafePickleError, match="TypeError"):
        load_unischema(data)


def test_field_shape_is_limited_to_numpys_maximum_dimensions() -> None:
    for dimensions in (64, 65):
        data = dump_unischema(Unischema("A", [UnischemaField("a", np.int64, (1,) * dimensions)]))
        if dimensions == 64:
            assert load_unischema(data).fields["a"].shape == (1,) * 64
        else:
            with pytest.raises(UnsafePickleError, match="a field has no valid shape"):
                load_unischema(data)


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        *(("string_", np.bytes_), ("unicode_", np.str_), ("bool8", np.bool_)),
        *(("float_", np.float64), ("bool_", np.bool_)),
    ],
)
def test_removed_numpy_types_are_read_from_pickle(name: str, type_: type) -> None:
    data = protocol_0().replace(b"cnumpy\nint64\n", f"cnumpy\n{name}\n".encode())
    assert load_unischema(data).fields["id"].numpy_dtype is type_


def test_scalar_codec_with_spark_array_type_is_restored_from_pickle() -> None:
    codec = codecs.ScalarCodec(TYPES.ArrayType(TYPES.LongType(), False))
    schema = Unischema("A", [UnischemaField("a", np.int64, (), codec)])
    found = load_unischema(pickle.dumps(schema)).fields["a"].codec.spark_dtype()
    assert found == TYPES.ArrayType(TYPES.LongType(), False)


@pytest.mark.parametrize("numbers", [(1, 0), (38, 0), (38, 38)])
def test_decimals_of_any_precision_and_scale_are_read(numbers: tuple[int, int]) -> None:
    codec = codecs.ScalarCodec(TYPES.DecimalType(*numbers))
    schema = Unischema("A", [UnischemaField("a", Decimal, (), codec)])
    found = load_unischema(pickle.dumps(schema)).fields["a"].codec.spark_dtype()
    assert found == TYPES.DecimalType(*numbers)


def test_written_pickle_can_be_read_by_standard_pickle() -> None:
    data = dump_unischema(EVERYTHING).replace(b"petastorm.", b"mdstorm.")
    found = pickle.loads(data)  # noqa: S301  # our own, with our own classes
    assert isinstance(found, Unischema)
    assert found.fields == EVERYTHING.fields
    assert found.price == found.fields["price"]
    assert found.price.codec.spark_dtype() == TYPES.DecimalType(10, 2)


# Hostile pickles: none of them executes code, and the error names the reason.

HOSTILE: dict[str, Any] = {
    "a command": lambda: calling(os.system, "touch hacked"),
    "a command of protocol 0": lambda: calling(os.system, "touch hacked", protocol=0),
    "eval": lambda: calling(eval, "open('hacked', 'w')"),
    "getattr": lambda: calling(getattr, Calls(__import__, "os"), "system"),
    "an import": lambda: calling(__import__, "os"),
    "a chain of names": lambda: b"\x80\x04\x8c\x05numpy\x8c\x10core.numeric.load\x93.",
    "numpy.load": lambda: calling(np.load, "hacked"),
    "numpy's tests": lambda: b"cnumpy.testing\nassert_equal\n(I1\nI1\ntR.",
    "a module of ours": lambda: b"cmdstorm.utils\nrun_in_subprocess\n(I1\ntR.",
    "a module of Petastorm": lambda: b"cpetastorm.utils\nrun_in_subprocess\n(I1\ntR.",
    "a builtin as a codec": lambda: protocol_0().replace(b"LongType", b"_parse_datatype_string"),
    "an old instance": lambda: b"(S'touch hacked'\nios\nsystem\n.",
    "an extension": lambda: b"\x82\x01.",
    "a persistent object": lambda: b"Phacked\n.",
    "a call with keywords": lambda: b"\x80\x04cbuiltins\nset\n)}\x92.",
    "a name off the stack": lambda: b"\x80\x04I1\nI2\n\x93.",
}


@pytest.mark.parametrize("load", [load_unischema, load_indexes])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_do_not_execute_code(
    name: str, load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = HOSTILE[name]()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsafePickleError) as caught:
        load(data)
    assert isinstance(caught.value, (pickle.UnpicklingError, PetastormMetadataError))
    assert list(tmp_path.iterdir()) == []


UNLISTED = {
    *("BINPERSID", "BYTEARRAY8", "DUP", "EXT1", "EXT2", "EXT4", "FROZENSET", "INST", "NEWOBJ_EX"),
    *("NEXT_BUFFER", "OBJ", "PERSID", "POP", "POP_MARK", "READONLY_BUFFER"),
}


@pytest.mark.parametrize("opcode", pickletools.opcodes, ids=lambda opcode: opcode.name)
def test_pickle_instructions_unused_by_petastorm_raise_error(
    opcode: pickletools.OpcodeInfo,
) -> None:
    is_line = opcode.arg is not None and opcode.arg.n == pickletools.UP_TO_NEWLINE
    argument = b"1\n2\n" if is_line else bytes(8)
    with pytest.raises(UnsafePickleError) as caught:
        load_unischema(b"N" + opcode.code.encode("latin-1") + argument + b".")
    refusal = f"The pickle instruction {opcode.name} is forbidden"
    assert (refusal in str(caught.value)) is (opcode.name in UNLISTED)


@pytest.mark.parametrize(
    "name",
    [
        *(b"cpetastorm.codecs\nNdarrayCodec\n", b"cnumpy\nint64\n"),
        *(b"ccopy_reg\n_reconstructor\n", b"cpyspark.serializers\n_restore\n"),
    ],
)
@pytest.mark.parametrize(
    "change", [b"}X\x04\x00\x00\x00nameNsb", b"N}X\x04\x00\x00\x00nameNs\x86b", b"NNs", b"Na"]
)
def test_pickle_cannot_change_how_later_pickles_resolve_a_name(name: bytes, change: bytes) -> None:
    with pytest.raises(UnsafePickleError, match="while reading it"):
        load_unischema(name + change + b".")
    assert str(load_unischema(pickle.dumps(EVERYTHING))) == str(EVERYTHING)
    for restored in (False, True):
        assert load_unischema(protocol_0(restored=restored)).fields.keys() == {"id", "im"}


@pytest.mark.parametrize("place", ["codec", "shape", "numpy_dtype", "name", "_name", "_fields"])
def test_call_in_any_pickled_schema_attribute_raises_error(place: str, tmp_path: Path) -> None:
    trap = Calls(os.mkdir, str(tmp_path / "hacked"))
    values = {"name": "a", "numpy_dtype": np.int64, "shape": (), "codec": None, "nullable": False}
    if place in values:
        values[place] = (trap,) if place == "shape" else trap
    field = tuple.__new__(UnischemaField, values.values())
    schema = Unischema.__new__(Unischema)
    schema.__dict__.update({"_name": "x", "_fields": OrderedDict(a=field)})
    if place.startswith("_"):
        schema.__dict__[place] = trap
    with pytest.raises(UnsafePickleError):
        load_unischema(pickle.dumps(schema))
    assert not (tmp_path / "hacked").exists()


def test_pickle_of_unexpected_object_raises_error() -> None:
    for wrong in (OrderedDict(), set(), [1], (1,), Decimal(1), None, 3, "text", b"bytes"):
        with pytest.raises(UnsafePickleError):
            load_unischema(pickle.dumps(wrong, 2))
    for class_ in (codecs.NdarrayCodec, unischema.Unischema, UnischemaField, np.dtype):
        with pytest.raises(UnsafePickleError):
            load_unischema(pickle.dumps(class_))
    with pytest.raises(UnsafePickleError):
        load_indexes(pickle.dumps({"a": codecs.NdarrayCodec()}))


@pytest.fixture
def index_pickle(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """A function that pickles an index with the given content as Petastorm does."""
    module = ModuleType("petastorm.etl.rowgroup_indexers")
    class_ = type("SingleFieldIndexer", (), {"__module__": module.__name__})
    vars(module)["SingleFieldIndexer"] = class_

    def dumped(content: Any, protocol: int = 4) -> bytes:
        indexer = class_()
        vars(indexer).update(_index_name="i", _column_name="f", _index_data=content)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "petastorm", ModuleType("petastorm"))
            patch.setitem(sys.modules, module.__name__, module)
            return pickle.dumps({"i": indexer}, protocol)

    return dumped


@pytest.mark.parametrize(
    "key",
    [
        *(np.int64(-3), np.uint8(200), np.float32(0.5), np.bool_(True), np.dtype(">i4").type(7)),
        *(np.str_("ä"), np.bytes_(b"x\0y"), np.datetime64("2020-01-02", "D")),
        *(np.datetime64("2020-01-02T03:04:05", "us"), np.datetime64(7, "25s")),
        *("text", b"bytes", 5, 2.5, None, Decimal("1.50")),
    ],
)
@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_scalars_are_read_as_index_keys(
    key: Any, protocol: int, index_pickle: Callable[..., bytes]
) -> None:
    data = index_pickle(defaultdict(set, {key: {0, 5}}), protocol)
    row_groups = load_indexes(data)["i"].row_groups
    assert isinstance(row_groups, dict)
    assert row_groups == {key: {0, 5}}
    assert type(next(iter(row_groups))) is type(key)


@pytest.mark.parametrize(
    "key", [np.longdouble(1), np.complex64(1j), (1, 2), frozenset({1}), np.timedelta64(1, "s")]
)
def test_non_scalar_index_keys_raise_error(key: Any, index_pickle: Callable[..., bytes]) -> None:
    with pytest.raises(UnsafePickleError):
        load_indexes(index_pickle({key: {0}}))


def test_scalars_pickled_by_python_2_are_read_as_index_keys() -> None:
    """Python 2 did not distinguish bytes from strings."""
    dtype = b"cnumpy\ndtype\nU\x02i8K\x00K\x01\x87R(K\x03U\x01<NNNI-1\nI-1\nK\x00tb"
    scalar = b"cnumpy.core.multiarray\nscalar\n" + dtype + b"U\x08" + b"\xff" * 8 + b"\x86R"
    groups = b"c__builtin__\nset\n]K\x05a\x85R"
    state = b"U\x0b_index_nameU\x01iU\x0c_column_nameU\x01fU\x0b_index_data}" + scalar + groups
    indexer = b"cpetastorm.etl.rowgroup_indexers\nSingleFieldIndexer\n)\x81}(" + state + b"sub"
    data = b"\x80\x02}U\x01i" + indexer + b"s."
    assert load_indexes(data)["i"].row_groups == {np.int64(-1): {5}}
    with pytest.raises(UnsafePickleError, match="a value whose size does not match its type int64"):
        load_indexes(data.replace(b"U\x08" + b"\xff" * 8, b"U\x10" + b"\xff" * 16))


def test_non_integer_row_group_numbers_raise_error(
    index_pickle: Callable[..., bytes],
) -> None:
    for groups in ({"a"}, {True}, {1.5}, "abc"):
        with pytest.raises(UnsafePickleError):
            load_indexes(index_pickle({"x": groups}))


# Pickle bombs: memory does not grow beyond the pickle's size, and reading ends quickly.


def test_deeply_nested_pickles_raise_error_quickly() -> None:
    for data in (
        b"(" * 20_000 + b"t" * 20_000 + b".",
        b"]" * 20_000 + b"a" * 19_999 + b".",
        b"N" + b"\x85" * 20_000 + b".",
        b"}N" + b"\x85" * 20_000 + b"Ns.",
    ):
        with pytest.raises(UnsafePickleError, match="ValueError"):
            load_unischema(data)


def test_tuples_with_shared_parts_are_not_hashed() -> None:
    doubled = b"N\x85q\x00" + b"".join(b"h%c\x86q%c" % (i, i + 1) for i in range(20))
    for data in (
        *(b"}" + doubled + b"Ns.", b"}(" + doubled + b"Nu."),
        *(b"(" + doubled + b"Nd.", b"\x8f(" + doubled + b"\x90."),
    ):
        with pytest.raises(UnsafePickleError, match="ValueError"):
            load_indexes(data)


def test_tuples_with_shared_parts_are_not_printed(index_pickle: Callable[..., bytes]) -> None:
    doubled: tuple[Any, ...] = ()
    for _ in range(40):
        doubled = (doubled, doubled)
    make, (_, content) = np.int64(1).__reduce__()
    dtype = Calls(np.dtype)
    dtype.call = (np.dtype, ("i8", False, True), (3, doubled))
    for wrong in (dtype, doubled):
        with pytest.raises(UnsafePickleError):
            load_indexes(index_pickle({Calls(make, wrong, content): {0}}))


def test_pickle_with_huge_shared_arguments_raises_error() -> None:
    shared = b"cdecimal\nDecimal\nq\x00(" + b"N" * 10_000 + b"tq\x01]"
    with pytest.raises(UnsafePickleError, match="TypeError"):
        load_indexes(shared + b"h\x00h\x01Ra" * 10_000 + b".")


def test_index_values_that_share_content_raise_error(
    index_pickle: Callable[..., bytes],
) -> None:
    make, (dtype, content) = np.bytes_(b"x" * 1000).__reduce__()
    shared = {Calls(make, dtype, content): set() for _ in range(10)}
    with pytest.raises(UnsafePickleError, match="more entries than its size allows"):
        load_indexes(index_pickle(shared))


def test_index_keys_with_equal_hashes_raise_error(index_pickle: Callable[..., bytes]) -> None:
    """All multiples of 2**61 - 1 hash alike in Python, so each is compared with the others."""
    flood = {i * (2**61 - 1): {0} for i in range(1000)}
    with pytest.raises(UnsafePickleError, match="ValueError"):
        load_indexes(index_pickle(flood))


def test_index_values_that_share_row_groups_raise_error(
    index_pickle: Callable[..., bytes],
) -> None:
    shared = set(range(300))
    with pytest.raises(UnsafePickleError, match="more entries than its size allows"):
        load_indexes(index_pickle(dict.fromkeys(range(300), shared), 4))
    apart = index_pickle({value: set(range(300)) for value in range(300)}, 4)
    assert load_indexes(apart)["i"].row_groups == dict.fromkeys(range(300), shared)


def test_index_has_at_most_as_many_entries_as_bytes(index_pickle: Callable[..., bytes]) -> None:
    """Of six values that share 300 numbers, and one without any whose key fills the bytes."""
    shared, entries = set(range(300)), 6 * 301 + 1

    def data(fill: int) -> bytes:
        return index_pickle({**dict.fromkeys(range(6), shared), "a" * fill: set()})

    fill = next(fill for fill in range(entries) if len(data(fill)) == entries)
    (index,) = load_indexes(data(fill)).values()
    assert len(index.row_groups) == 7
    with pytest.raises(UnsafePickleError, match="more entries than its size allows"):
        load_indexes(data(fill - 1))


def test_huge_memo_indexes_and_declared_lengths_do_not_allocate_memory() -> None:
    for data in (
        b"Nr\xff\xff\xff\xff.",
        b"N" + b"r\xff\xff\xff\x7f" + b"N" * 10 + b".",
        b"Np4000000000\n.",
        b"X\xff\xff\xff\x7f.",
        b"\x8e" + struct.pack("<Q", 1 << 60) + b"N.",
        b"\x8d" + struct.pack("<Q", 1 << 60) + b".",
        b"\x8b\xff\xff\xff\x7f.",
        b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"N.",
        b"I" + b"9" * 100_000 + b"\n.",
    ):
        tracemalloc.start()
        try:
            with pytest.raises(UnsafePickleError):
                load_unischema(data)
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()


def test_self_referencing_spark_array_type_raises_error() -> None:
    array = TYPES.ArrayType(TYPES.LongType())
    array.elementType = array
    schema = Unischema("A", [UnischemaField("a", np.int64, (), codecs.ScalarCodec(array))])
    with pytest.raises(UnsafePickleError):
        load_unischema(pickle.dumps(schema))


def test_loading_a_pickled_schema_imports_neither_petastorm_nor_spark(tmp_path: Path) -> None:
    (tmp_path / "schema").write_bytes(protocol_0())
    program = (
        "import sys, pathlib\n"
        "from mdstorm._pickles import load_unischema\n"
        "schema = load_unischema(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "assert len(schema.fields) == 2, schema\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'pyspark', 'petastorm', 'torch', 'tensorflow', 'pandas'}, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "schema"], check=True)
