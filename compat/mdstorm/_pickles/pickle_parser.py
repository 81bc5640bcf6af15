"""Read a pickle without executing it.

A pickle is a program. The parser runs it on a stack as `pickle` would, but records the name of each
import and the arguments of each call instead of executing them: it creates only numbers, strings
and the containers of `nodes`. Its callers decide what the names mean.

Every instruction takes memory at most in proportion to its own length, nothing is hashed, compared
or printed, and nested values are never traversed, so a hostile pickle gains nothing.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Callable
from typing import Any

from mdstorm._pickles.nodes import Call, Global, Mapping, Sequence
from mdstorm.errors import UnsafePickleError

#: Petastorm's metadata takes kilobytes; an index of millions of values takes megabytes.
_MAX_BYTES = 1 << 28


#: Marks a place on the stack.
_MARK = object()


def read_pickle(data: bytes, is_allowed: Callable[[Global], bool]) -> Any:
    """Return what a pickle of any protocol describes.

    Parameters
    ----------
    data : bytes
        The pickle.
    is_allowed : callable
        Whether a name may be imported.

    Returns
    -------
    object
        None, bool, int, float, str, bytes, tuple, or an instance of a class of `nodes`.

    Raises
    ------
    UnsafePickleError
        If it imports what is not allowed, is not a pickle, or uses what Petastorm's never use.
    """
    if len(data) > _MAX_BYTES:
        raise UnsafePickleError(
            f"A pickle of {len(data)} bytes is not loaded: Petastorm's metadata takes kilobytes"
        )
    reader = _PickleParser(is_allowed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of strings that are damaged
            for opcode, argument, _ in pickletools.genops(data):
                reader.follow(opcode.name, argument)
    except UnsafePickleError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UnsafePickleError(
            f"Petastorm would not write this pickle ({type(error).__name__} while reading it): it "
            "is damaged, or was written by something else"
        ) from error
    return reader.result()


class _PickleParser:
    def __init__(self, is_allowed: Callable[[Global], bool]) -> None:
        self._is_allowed = is_allowed
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def result(self) -> Any:
        if len(self._stack) != 1 or self._stack[0] is _MARK:
            raise UnsafePickleError("This is not a pickle: it leaves no object behind")
        return self._stack[0]

    def follow(self, name: str, argument: Any) -> None:
        """Follow one instruction."""
        if name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _LITERALS:
            self._stack.append(argument)
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in _IGNORED:
            raise UnsafePickleError(
                f"The pickle instruction {name} is forbidden: Petastorm never writes it, so this "
                "metadata was written by something else"
            )

    def pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("a mark in the place of a value")
        return value

    def pop_to_mark(self) -> list[Any]:
        """Take what was pushed since the last mark, and the mark."""
        place = len(self._stack) - 1
        while self._stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError("no mark")
        found = self._stack[place + 1 :]
        del self._stack[place:]
        return found

    def mark(self, _: Any) -> None:
        self._stack.append(_MARK)

    def duplicate(self, _: Any) -> None:
        self._stack.append(self._stack[-1])

    def discard(self, _: Any) -> None:
        self._stack.pop()

    def discard_to_mark(self, _: Any) -> None:
        self.pop_to_mark()

    def get(self, number: int) -> None:
        self._stack.append(self._memo[number])

    def put(self, number: int) -> None:
        self._memo[number] = self._stack[-1]

    def memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def push_tuple(self, _: Any) -> None:
        self._stack.append(tuple(self.pop_to_mark()))

    def push_short_tuple(self, length: int) -> None:
        values = [self.pop() for _ in range(length)]
        self._stack.append(tuple(reversed(values)))

    def push_sequence(self, _: Any) -> None:
        self._stack.append(Sequence())

    def push_marked_sequence(self, _: Any) -> None:
        self._stack.append(Sequence(self.pop_to_mark()))

    def push_mapping(self, _: Any) -> None:
        self._stack.append(Mapping())

    def push_marked_mapping(self, _: Any) -> None:
        self._stack.append(Mapping(_pairs(self.pop_to_mark())))

    def append(self, _: Any) -> None:
        value = self.pop()
        self._top(Sequence).items.append(value)

    def append_marked(self, _: Any) -> None:
        values = self.pop_to_mark()
        self._top(Sequence).items.extend(values)

    def set_item(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self._top(Mapping, Call).items.append((key, value))

    def set_marked_items(self, _: Any) -> None:
        pairs = _pairs(self.pop_to_mark())
        self._top(Mapping, Call).items.extend(pairs)

    def push_global(self, text: str) -> None:
        module, _, name = text.partition(" ")
        self._import(module, name)

    def push_global_of_stack(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        self._import(module, name)

    def call(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        self._stack.append(Call(function, arguments))

    def build(self, _: Any) -> None:
        state = self.pop()
        self._top(Call).state = state

    def _top(self, *types: type) -> Any:
        if not isinstance(self._stack[-1], types):
            raise TypeError("an instruction for another kind of object")
        return self._stack[-1]

    def _import(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("a name that is not a string")
        found = Global(module, name)
        if not self._is_allowed(found):
            raise UnsafePickleError(
                f"global '{found}' is forbidden: pickles in Petastorm's metadata name only the "
                "classes of schemas and row group indexes. This one was written by something else, "
                "or with a codec of your own; none of it was run"
            )
        self._stack.append(found)


def _pairs(values: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(values[::2], values[1::2], strict=True))


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_IGNORED = {"PROTO", "FRAME", "STOP"}
_LITERALS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
_LITERALS |= {"STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
_LITERALS |= {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_ACTIONS: dict[str, Callable[[_PickleParser, Any], None]] = {
    "MARK": _PickleParser.mark,
    "DUP": _PickleParser.duplicate,
    "POP": _PickleParser.discard,
    "POP_MARK": _PickleParser.discard_to_mark,
    "GET": _PickleParser.get,
    "BINGET": _PickleParser.get,
    "LONG_BINGET": _PickleParser.get,
    "PUT": _PickleParser.put,
    "BINPUT": _PickleParser.put,
    "LONG_BINPUT": _PickleParser.put,
    "MEMOIZE": _PickleParser.memoize,
    "EMPTY_TUPLE": lambda reader, _: reader.push_short_tuple(0),
    "TUPLE1": lambda reader, _: reader.push_short_tuple(1),
    "TUPLE2": lambda reader, _: reader.push_short_tuple(2),
    "TUPLE3": lambda reader, _: reader.push_short_tuple(3),
    "TUPLE": _PickleParser.push_tuple,
    "EMPTY_LIST": _PickleParser.push_sequence,
    "EMPTY_SET": _PickleParser.push_sequence,
    "LIST": _PickleParser.push_marked_sequence,
    "FROZENSET": _PickleParser.push_marked_sequence,
    "APPEND": _PickleParser.append,
    "APPENDS": _PickleParser.append_marked,
    "ADDITEMS": _PickleParser.append_marked,
    "EMPTY_DICT": _PickleParser.push_mapping,
    "DICT": _PickleParser.push_marked_mapping,
    "SETITEM": _PickleParser.set_item,
    "SETITEMS": _PickleParser.set_marked_items,
    "GLOBAL": _PickleParser.push_global,
    "STACK_GLOBAL": _PickleParser.push_global_of_stack,
    "REDUCE": _PickleParser.call,
    "NEWOBJ": _PickleParser.call,
    "BUILD": _PickleParser.build,
}
