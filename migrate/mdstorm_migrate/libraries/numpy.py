"""Names that NumPy removed in 1.24, 2.0, 2.3 and 2.4."""

from __future__ import annotations

from mdstorm_migrate.libraries.removed import Member, Removed, all_of, joined

#: Aliases of builtins. `bool` and `long` are back in NumPy 2 with another meaning, but Petastorm
#: does not run with NumPy 2: where it is imported they are the builtins, or fail.
_BUILTINS = {
    "bool": "bool",
    "complex": "complex",
    "float": "float",
    "int": "int",
    "long": "int",
    "object": "object",
    "str": "str",
    "unicode": "str",
}
#: Names of NumPy, and what each of them was an alias of.
_ALIASES = {
    "Inf": "inf",
    "Infinity": "inf",
    "NAN": "nan",
    "NaN": "nan",
    "PINF": "inf",
    "alltrue": "all",
    "bool8": "bool_",
    "bytes0": "bytes_",
    "cfloat": "complex128",
    "clongfloat": "clongdouble",
    "complex_": "complex128",
    "cumproduct": "cumprod",
    "float_": "float64",
    "infty": "inf",
    "int0": "intp",
    "longcomplex": "clongdouble",
    "longfloat": "longdouble",
    "mat": "asmatrix",
    "object0": "object_",
    "product": "prod",
    "round_": "round",
    "singlecomplex": "complex64",
    "sometrue": "any",
    "str0": "str_",
    "string_": "bytes_",
    "uint0": "uintp",
    "unicode_": "str_",
    "void0": "void",
}
#: Those that ruff's rules leave out.
_UNKNOWN_TO_RUFF = frozenset(
    {"bool", "bool8", "bytes0", "int0", "long", "object0", "str0", "uint0", "void0"}
)
_IN_2_0 = "NumPy 2.0"


def _moved(names: str, instead: str, ruff: str = "NPY201") -> dict[str, Removed]:
    return all_of("numpy", names, Removed(_IN_2_0, instead, ruff=ruff))


NAMES = joined(
    {
        f"numpy.{old}": Removed(
            "NumPy 1.24",
            f"write `{new}`",
            new,
            "" if old in _UNKNOWN_TO_RUFF else "NPY001",
        )
        for old, new in _BUILTINS.items()
    },
    {
        f"numpy.{old}": Removed(
            _IN_2_0,
            f"write `numpy.{new}`",
            f"numpy.{new}",
            "" if old in _UNKNOWN_TO_RUFF else "NPY201",
        )
        for old, new in _ALIASES.items()
    },
    {
        "numpy.NINF": Removed(_IN_2_0, "write `-numpy.inf`", "-numpy.inf", "NPY201"),
        "numpy.PZERO": Removed(_IN_2_0, "write `0.0`", "0.0", "NPY201"),
        "numpy.NZERO": Removed(_IN_2_0, "write `-0.0`", "-0.0", "NPY201"),
    },
    all_of("numpy", "MachAr", Removed("NumPy 1.24", "call `numpy.finfo`")),
    all_of("numpy", "typeDict", Removed("NumPy 1.24", "use `numpy.sctypeDict`")),
    all_of("numpy", "Tester testing.Tester testing.dec", Removed("NumPy 1.25", "use pytest")),
    all_of("numpy", "asscalar", Removed("NumPy 1.23", "call `.item()` of the array")),
    all_of("numpy", "loads", Removed("NumPy 1.23", "call `pickle.loads`")),
    all_of("numpy", "rank", Removed("NumPy 1.18", "call `numpy.ndim`")),
    all_of("numpy", "alen", Removed("NumPy 1.23", "call `len`")),
    _moved(
        "AxisError ComplexWarning ModuleDeprecationWarning RankWarning TooHardError "
        "VisibleDeprecationWarning",
        "take it from `numpy.exceptions`, which NumPy 1.25 and newer have",
        ruff="",
    ),
    _moved("asfarray", "call `numpy.asarray(x, dtype=float)`, or with the dtype that x has"),
    _moved("byte_bounds", "call `numpy.lib.array_utils.byte_bounds`"),
    _moved("cast", "call `numpy.asarray(x, dtype=…)`"),
    _moved("compare_chararrays", "call `numpy.char.compare_chararrays`"),
    _moved("DataSource", "take it from `numpy.lib.npyio`"),
    _moved("deprecate deprecate_with_doc", "raise `DeprecationWarning` by `warnings.warn`"),
    _moved("disp", "write your own function that prints"),
    _moved("find_common_type", "call `numpy.promote_types` or `numpy.result_type`"),
    _moved("geterrobj seterrobj", "use `numpy.errstate`"),
    _moved("issubclass_", "call `issubclass`"),
    _moved("issctype", "write `isinstance(x, type) and issubclass(x, numpy.generic)`"),
    _moved("issubsctype", "call `numpy.issubdtype`"),
    _moved("lookfor", "search NumPy's documentation"),
    _moved("math", "import Python's `math`", ruff=""),
    _moved("maximum_sctype", "name the dtype that is meant"),
    _moved("msort", "call `numpy.sort(x, axis=0)`", ruff=""),
    _moved("nbytes", "write `numpy.dtype(x).itemsize`"),
    _moved("obj2sctype", "write `numpy.dtype(x).type`"),
    _moved("recfromcsv recfromtxt", "call `numpy.genfromtxt`"),
    _moved("safe_eval", "call `ast.literal_eval`"),
    _moved("sctype2char", "write `numpy.dtype(x).char`"),
    _moved("sctypes", "list the dtypes that are meant"),
    _moved("set_string_function", "call `numpy.set_printoptions(formatter=…)`"),
    _moved("source", "call `inspect.getsource`"),
    _moved("who", "look at the variables in a debugger"),
    all_of(
        "numpy",
        "in1d",
        Removed(
            "NumPy 2.4",
            "call `numpy.isin`, which keeps the shape of its first argument: `.ravel()` that, "
            "if it has more than one dimension",
            ruff="NPY201",
        ),
    ),
    all_of(
        "numpy",
        "trapz",
        Removed(
            "NumPy 2.4",
            "call `numpy.trapezoid` (NumPy 2.0 and newer) or `scipy.integrate.trapezoid`",
            ruff="NPY201",
        ),
    ),
)

MEMBERS = {
    "tostring": Member(
        ("numpy.ndarray",),
        Removed("NumPy 2.3", "call `.tobytes()`, which gives the same bytes", "tobytes"),
    ),
}
