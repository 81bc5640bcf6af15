"""Read Petastorm's pickles without executing them, replacing globals with inert placeholders."""

from __future__ import annotations

import functools
import io
import pickle
import pickletools
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mdstorm._schema import ATOMIC_TYPES, NamedSparkType
from mdstorm.errors import UnsafePickleError

_NUMPY = (
    *("bool_", "bytes_", "datetime64", "object_", "str_", "timedelta64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "double", "half", "single"),
    *("int_", "intc", "longlong", "ulonglong"),
)
#: Type names used by other NumPy versions, and their current names.
_NUMPY_OTHERS = {
    "bool": "bool_",
    "bool8": "bool_",
    "bytes0": "bytes_",
    "float_": "float64",
    "str0": "str_",
    "string_": "bytes_",
    "unicode_": "str_",
}
#: The types that a field can have, by name.
TYPES: dict[str, Any] = {
    "decimal.Decimal": Decimal,
    **{f"builtins.{type_.__name__}": type_ for type_ in (bool, bytes, float, int, str)},
    **{"builtins.long": int, "builtins.unicode": str},
    **{f"numpy.{name}": getattr(np, name) for name in _NUMPY},
    **{f"numpy.{name}": getattr(np, found) for name, found in _NUMPY_OTHERS.items()},
}
SPARK_TYPES = {f"pyspark.sql.types.{name}": json for name, json in ATOMIC_TYPES.items()}

#: All globals that a pickle may reference.
KNOWN = frozenset(
    {
        *TYPES,
        *SPARK_TYPES,
        "builtins.object",
        "builtins.set",
        "builtins.tuple",
        "collections.OrderedDict",
        "collections.defaultdict",
        "copyreg._reconstructor",
        "numpy.core.multiarray.scalar",
        "numpy.dtype",
        "petastorm.codecs.CompressedImageCodec",
        "petastorm.codecs.CompressedNdarrayCodec",
        "petastorm.codecs.NdarrayCodec",
        "petastorm.codecs.ScalarCodec",
        "petastorm.etl.rowgroup_indexers.FieldNotNullIndexer",
        "petastorm.etl.rowgroup_indexers.SingleFieldIndexer",
        "petastorm.unischema.Unischema",
        "petastorm.unischema.UnischemaField",
        "pyspark.serializers._restore",
        "pyspark.sql.types.ArrayType",
        "pyspark.sql.types.DecimalType",
    }
)

#: Other names of packages and modules, mapped to those in Petastorm 0.13, Python 3 and NumPy 1.
_RENAMED = {
    "__builtin__.": "builtins.",
    "av.experimental.deepdrive.dataset_toolkit.": "petastorm.",
    "av.ml.dataset_toolkit.": "petastorm.",
    "copy_reg.": "copyreg.",
    "mdstorm.": "petastorm.",
    "numpy._core.": "numpy.core.",
}
#: Maximum size of a pickle in bytes. Petastorm's metadata takes kilobytes; an index with millions
#: of values takes megabytes.
MAX_BYTES = 1 << 28
#: Maximum number of arguments to a constructor or function; a field takes the most.
_MOST_ARGUMENTS = 5
#: The opcodes that Petastorm's pickles use, across all protocols.
_LISTED = frozenset(
    [
        *("PROTO", "FRAME", "STOP", "MARK"),
        *("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"),
        *("NONE", "NEWTRUE", "NEWFALSE", "FLOAT", "BINFLOAT"),
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
        *("EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_SET", "ADDITEMS"),
        *("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"),
        *("GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD"),
    ]
)
#: Which of the values that an opcode pops must be hashable, by opcode.
_HASHED = {
    "SETITEM": slice(1, 2),
    "SETITEMS": slice(1, None, 2),
    "DICT": slice(0, None, 2),
    "ADDITEMS": slice(1, None),
}
#: Maximum nesting depth. Petastorm's pickles nest at most 13 levels deep, at the unit of a
#: timestamp in an index.
_DEEPEST = 50
#: Scalar dtypes: byte order, kind, size, and the unit of datetimes.
_DTYPE = re.compile(
    r"[<>=|](b1|[iu][1248]|f[248]|[SU]\d{1,6}|M8\[\d{1,9}(Y|M|W|D|h|m|s|ms|us|ns)\])"
)


class Placeholder:
    """Stands for a class or function that a pickle references; instances represent objects.

    A placeholder records the calls that the pickle would make, without executing any. Neither
    instances nor classes accept other attributes, and instances compare equal only to themselves.

    Attributes
    ----------
    name : str
        The name of the class or function in Petastorm, Python 3 and NumPy 1, such as
        ``decimal.Decimal``.
    arguments : tuple
        The arguments that the object is created with.
    state : object
        The state passed to ``__setstate__``; None if there is none.
    entries : list of tuple
        Keys and values assigned by item, as in a dict.
    """

    __slots__ = ("arguments", "entries", "state")
    name: ClassVar[str]
    arguments: tuple[Any, ...]
    entries: list[tuple[Any, Any]]
    state: Any

    def __new__(cls, *arguments: Any) -> Any:
        if len(arguments) > _MOST_ARGUMENTS:  # limits memory: arguments are copied for each object
            raise TypeError("too many arguments")
        self = super().__new__(cls)
        self.arguments, self.state, self.entries = arguments, None, []
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries.append((key, value))


class _Reconstructed(Placeholder):
    """``copyreg._reconstructor(class, base, values)``: how protocols 0 and 1 create an object."""

    __slots__ = ()

    def __new__(cls, made: Any, base: Any, values: Any) -> Any:
        return made(*(values or ()))  # only placeholders can be called


class _Restored(Placeholder):
    """``pyspark.serializers._restore(name, fields, values)``: a namedtuple that Spark pickled."""

    __slots__ = ()

    def __new__(cls, name: Any, fields: Any, values: Any) -> Any:
        if name != "UnischemaField":
            raise TypeError("a namedtuple that is not a field")
        return _placeholder("petastorm.unischema.UnischemaField")(*values)


def read_pickle(data: bytes) -> Any:
    """Return the content of a pickle of any protocol, without executing anything in it.

    Returns
    -------
    object
        Plain values and containers, with a `Placeholder` in place of everything else.

    Raises
    ------
    UnsafePickleError
        If the data is not a pickle, references a global that Petastorm's metadata never does, or
        uses opcodes that Petastorm's pickles never contain.
    """
    if len(data) > MAX_BYTES:
        raise UnsafePickleError(
            f"A pickle of {len(data)} bytes is not loaded: Petastorm's metadata takes kilobytes"
        )
    with damage_refused(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # damaged strings cause warnings
        check_instructions(data)
        # In Python 2, str was bytes, which Latin-1 preserves.
        return _Unpickler(io.BytesIO(data), encoding="latin-1").load()


class _Unpickler(pickle.Unpickler):
    """An unpickler that returns placeholders for known globals and rejects all others."""

    def find_class(self, module: str, name: str) -> type[Placeholder]:
        known = f"{module}.{name}"
        for other, current in _RENAMED.items():
            if known.startswith(other):
                known = current + known.removeprefix(other)
        if known not in KNOWN:
            raise UnsafePickleError(
                f"global '{module[:100]}.{name[:100]}' is forbidden: pickles in Petastorm's "
                "metadata refer only to classes for schemas and row group indexes. This pickle was "
                "written by something else, or with a custom codec. None of it was executed"
            )
        return _placeholder(known)


@contextmanager
def damage_refused() -> Iterator[None]:
    """Convert errors that a damaged pickle causes in the block to UnsafePickleError."""
    try:
        yield
    except UnsafePickleError:
        raise
    except (
        *(ArithmeticError, AttributeError, EOFError, LookupError, TypeError, ValueError),
        pickle.UnpicklingError,
    ) as error:
        raise UnsafePickleError(
            f"Petastorm would not write this pickle ({type(error).__name__} while reading it): it "
            "is damaged, or was written by something else"
        ) from error


def refused(what: str) -> UnsafePickleError:
    """Return the error for known globals combined in a way that Petastorm never writes."""
    return UnsafePickleError(
        f"Petastorm would not write this metadata: {what}. It is damaged, or was written by "
        "something else"
    )


def expect(node: Any, what: str, *names: str) -> Placeholder:
    """Return `node` if it is an instance of one of the classes `names`.

    Raises
    ------
    UnsafePickleError
        If it is not; the message contains the object's name and `what`.
    """
    if isinstance(node, Placeholder) and node.name in names:
        return node
    raise refused(f"{getattr(node, 'name', type(node).__name__)} is not a {what}")


@functools.cache
def _placeholder(name: str) -> type[Placeholder]:
    base = _SPECIAL.get(name, Placeholder)
    return type(name, (base,), {"__slots__": (), "name": name})


_SPECIAL = {"copyreg._reconstructor": _Reconstructed, "pyspark.serializers._restore": _Restored}


class _Value(NamedTuple):
    """The nesting depth of a value on the pickle stack, and whether the value is a tuple."""

    depth: int
    is_tuple: bool


#: Results of the opcodes that push a value without popping any, which are the most frequent.
_FROM_NOTHING = {
    opcode.name: [_Value(0, made is pickletools.pytuple) for made in opcode.stack_after]
    for opcode in pickletools.opcodes
    if not opcode.stack_before
}


def check_instructions(data: bytes) -> None:
    """Check the opcodes in a pickle without creating any values.

    The memory and time needed to load a pickle that passes are proportional to its length. No
    length extends past the end of the pickle, no memo index is larger than the pickle could fill,
    integers fit in 64 bits, and no tuple is hashed, because hashing revisits shared parts.

    Raises
    ------
    UnsafePickleError
        If an opcode is one that Petastorm's pickles never contain.
    IndexError, KeyError, ValueError
        If `data` is not a pickle, or exceeds these bounds.
    """
    stack: list[_Value] = []
    marks: list[int] = []
    memo: dict[int, _Value] = {}
    argument: Any
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        name = opcode.name
        if name not in _LISTED:
            raise UnsafePickleError(
                f"The pickle instruction {name} is forbidden: Petastorm never writes it, so this "
                "metadata was written by something else"
            )
        if isinstance(argument, int) and argument.bit_length() > 64:
            raise ValueError("a number of more than 64 bits")
        if name == "MARK":
            marks.append(len(stack))
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name.endswith("PUT"):
            if argument > count:
                raise ValueError("a memo index that is too large")
            memo[argument] = stack[-1]
        elif name.endswith("GET"):
            stack.append(memo[argument])
        elif opcode.stack_before:
            _follow(opcode, stack, marks)
        else:
            stack += _FROM_NOTHING[name]


def _follow(opcode: pickletools.OpcodeInfo, stack: list[_Value], marks: list[int]) -> None:
    """Pop the values that an opcode consumes from the stack, and push its result.

    An opcode that pops more values than the stack holds is left for the unpickler to reject.
    """
    before, after = opcode.stack_before, opcode.stack_after
    start = len(stack) - len(before)
    if pickletools.markobject in before:
        start = marks.pop() - before.index(pickletools.markobject)
    taken = stack[start:]
    del stack[start:]
    if any(value.is_tuple for value in taken[_HASHED.get(opcode.name, slice(0))]):
        raise ValueError("a tuple instead of a key")
    depth = 0
    if before and after and before[0] is after[0]:  # the instruction modifies its first value
        depth = taken.pop(0).depth
    depth = max(depth, 1 + max((value.depth for value in taken), default=-1))
    if depth > _DEEPEST:
        raise ValueError("values nested too deeply")
    stack += [_Value(depth, made is pickletools.pytuple) for made in after]


def numpy_type(node: Any) -> Any:
    """Return the type that a field's ``numpy_dtype`` refers to."""
    if not isinstance(node, type):
        return _dtype(node)
    name = getattr(node, "name", "")
    if name not in TYPES:
        raise refused(f"{name} is not the type of a field")
    return TYPES[name]


def spark_type(node: Any) -> NamedSparkType:
    """Return a codec's Spark type, which is stored as an instance or as a class."""
    if getattr(node, "name", None) != "pyspark.sql.types.ArrayType":
        return NamedSparkType(_simple_spark_type(node))
    state = attributes(node)
    element = _simple_spark_type(state["elementType"])
    has_nulls = state.get("containsNull") is not False
    return NamedSparkType({"type": "array", "elementType": element, "containsNull": has_nulls})


def _simple_spark_type(node: Any) -> str:
    name = getattr(node, "name", type(node).__name__)
    if name in SPARK_TYPES:
        return SPARK_TYPES[name]
    if name != "pyspark.sql.types.DecimalType":
        raise refused(f"{name} is not a Spark type")
    state = attributes(node)
    precision, scale = state.get("precision", 10), state.get("scale", 0)
    if not all(type(number) is int and 0 <= number <= 38 for number in (precision, scale)):
        raise refused("a decimal with an impossible precision or scale")
    return f"decimal({precision},{scale})"


def scalar(node: Any) -> Any:
    """Return a value in an index: a NumPy or Python scalar, a Decimal, or None."""
    if node is None or isinstance(node, (bool, int, float, str, bytes)):
        return node
    found = expect(node, "value of an index", "numpy.core.multiarray.scalar", "decimal.Decimal")
    if found.name == "decimal.Decimal":
        return Decimal(text_of(*found.arguments))
    dtype, content = _dtype(found.arguments[0]), found.arguments[1]
    # In Python 2, bytes were pickled as str, which `read_pickle` decoded as Latin-1.
    stored = content.encode("latin-1") if isinstance(content, str) else content
    if len(stored) != dtype.itemsize:
        raise refused(f"a value whose size does not match its type {dtype}")
    return np.frombuffer(stored, dtype)[0] if stored else dtype.type()


def _dtype(node: Any) -> np.dtype[Any]:
    """Return the number, string or datetime dtype that a pickled ``numpy.dtype`` call creates."""
    made = expect(node, "dtype", "numpy.dtype")
    state: Any = made.state or (None, "=")
    name = text_of(state[1]) + text_of(made.arguments[0])
    if name.endswith("M8"):  # the state ends with the unit
        unit, count = state[8][1][:2]
        name += f"[{count:d}{text_of(unit.decode() if isinstance(unit, bytes) else unit)}]"
    if not _DTYPE.fullmatch(name):
        raise refused(f"a dtype {name[:20]!r}, which could contain anything")
    return np.dtype(name)


def attributes(node: Any) -> dict[str, Any]:
    """Return the attributes that an object's state sets."""
    state = node.state if isinstance(node, Placeholder) else None
    return state if isinstance(state, dict) else {}


def entries(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the keys and values of a dict, an OrderedDict or a defaultdict."""
    if isinstance(node, dict):
        yield from node.items()
        return
    made = expect(node, "dict", "collections.OrderedDict", "collections.defaultdict")
    if made.name == "collections.OrderedDict" and made.arguments:  # as Python 2 writes it
        yield from made.arguments[0]
    yield from made.entries


def text_of(value: Any) -> str:
    """Return `value`; raise UnsafePickleError unless it is a string."""
    if not isinstance(value, str):
        raise refused("a name is not a string")
    return value
