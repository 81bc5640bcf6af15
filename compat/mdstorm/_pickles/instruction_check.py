"""Refuse a pickle that could take much memory or time, before it is read."""

from __future__ import annotations

import pickletools
from typing import Any, NamedTuple

from mdstorm.errors import UnsafePickleError

#: All that Petastorm's pickles consist of, in any protocol.
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
#: Which of the values that an instruction takes are hashed.
_HASHED = {
    "SETITEM": slice(1, 2),
    "SETITEMS": slice(1, None, 2),
    "DICT": slice(0, None, 2),
    "ADDITEMS": slice(1, None),
}
_NOTHING = slice(0)
#: Petastorm's reach 13: the unit of a time in an index.
_DEEPEST = 50


class _Value(NamedTuple):
    """What is known of a value on the stack of the pickle."""

    depth: int
    is_tuple: bool


#: What instructions put on the stack that take nothing from it: the most frequent ones.
_FROM_NOTHING = {
    opcode.name: [_Value(0, made is pickletools.pytuple) for made in opcode.stack_after]
    for opcode in pickletools.opcodes
    if not opcode.stack_before
}


def check_instructions(data: bytes) -> None:
    """Follow the instructions of a pickle without making a value.

    Whatever passes takes memory and time in proportion to its length: a length ends inside of the
    pickle, a place in the memo is not beyond what the pickle could fill, numbers have 64 bits, and
    no tuple is hashed, which visits shared parts again and again.

    Raises
    ------
    UnsafePickleError
        If an instruction is not one that Petastorm's pickles consist of, or exceeds these bounds.
    IndexError, KeyError, ValueError
        If it is not a pickle.
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
                raise ValueError("a place in the memo beyond what the pickle could fill")
            memo[argument] = stack[-1]
        elif name.endswith("GET"):
            stack.append(memo[argument])
        elif opcode.stack_before:
            _follow(opcode, stack, marks)
        else:
            stack += _FROM_NOTHING[name]


def _follow(opcode: pickletools.OpcodeInfo, stack: list[_Value], marks: list[int]) -> None:
    """Take what an instruction takes from the stack, and put what it makes of that there.

    One that takes more than is there is left to the unpickler, which refuses it.
    """
    takes = len(opcode.stack_before)
    start = len(stack) - takes
    if pickletools.markobject in opcode.stack_before:
        start = marks.pop() - opcode.stack_before.index(pickletools.markobject)
    taken = stack[start:]
    del stack[start:]
    if any(value.is_tuple for value in taken[_HASHED.get(opcode.name, _NOTHING)]):
        raise ValueError("a tuple in the place of a key")
    before, after = opcode.stack_before, opcode.stack_after
    depth = 0
    if before and after and before[0] is after[0]:  # it changes the first value
        depth = taken.pop(0).depth
    depth = max(depth, 1 + max((value.depth for value in taken), default=-1))
    if depth > _DEEPEST:
        raise ValueError("values nested too deeply")
    stack += [_Value(depth, made is pickletools.pytuple) for made in after]
