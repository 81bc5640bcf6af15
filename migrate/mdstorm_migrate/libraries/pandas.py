"""Names, members and arguments that pandas removed up to 3.0."""

from __future__ import annotations

from mdstorm_migrate.libraries.removed import Member, Removed, all_of, joined, words

_ROLLING = "rolling_mean rolling_std rolling_sum rolling_max rolling_min rolling_apply"
_IN_2_0 = "pandas 2.0"
_IN_3_0 = "pandas 3.0"

NAMES = joined(
    all_of("pandas", "datetime", Removed(_IN_2_0, "import `datetime` from Python's `datetime`")),
    all_of("pandas", "np", Removed(_IN_2_0, "`import numpy as np`")),
    all_of(
        "pandas",
        "Int64Index UInt64Index Float64Index",
        Removed(_IN_2_0, "use `pandas.Index` with a dtype, or ask `.dtype` of an index"),
    ),
    all_of(
        "pandas",
        "SparseSeries SparseDataFrame",
        Removed(_IN_2_0, "use columns of `pandas.SparseDtype`"),
    ),
    all_of("pandas", "util.testing", Removed(_IN_2_0, "use `pandas.testing`")),
    all_of("pandas", "core.index", Removed(_IN_2_0, "import the names from `pandas`")),
    all_of("pandas", "io.json.json_normalize", Removed(_IN_2_0, "use `pandas.json_normalize`")),
    all_of(
        "pandas",
        "Panel Panel4D WidePanel",
        Removed("pandas 1.0", "use a DataFrame with a MultiIndex, or xarray"),
    ),
    all_of("pandas", "TimeSeries", Removed("pandas 1.0", "use `pandas.Series`")),
    all_of(
        "pandas",
        f"{_ROLLING} ewma expanding_mean",
        Removed("pandas 1.0", "call `.rolling()`, `.ewm()` or `.expanding()` of the object"),
    ),
    all_of(
        "pandas", "scatter_matrix tools.plotting", Removed("pandas 1.0", "use `pandas.plotting`")
    ),
    all_of("pandas", "tools.merge", Removed("pandas 1.0", "use `pandas.merge`, `pandas.concat`")),
    all_of("pandas", "read_gbq", Removed(_IN_3_0, "call `pandas_gbq.read_gbq`")),
    all_of("pandas", "value_counts", Removed(_IN_3_0, "call `pandas.Series(x).value_counts()`")),
)

_BOTH = ("pandas.DataFrame", "pandas.Series")
_FRAME = ("pandas.DataFrame",)
_LOC = "use `.loc` for labels or `.iloc` for positions"

MEMBERS = {
    "append": Member(_BOTH, Removed(_IN_2_0, "call `pandas.concat([a, b])`")),
    "iteritems": Member(_BOTH, Removed(_IN_2_0, "call `.items()`", "items"), True),
    "ix": Member(_BOTH, Removed("pandas 1.0", _LOC, ruff="PD007"), True),
    "lookup": Member(
        _FRAME, Removed(_IN_2_0, "index the values by `.columns.get_indexer` and `.index`")
    ),
    "mad": Member(_BOTH, Removed(_IN_2_0, "write `(x - x.mean()).abs().mean()`")),
    "as_matrix": Member(_BOTH, Removed("pandas 1.0", "call `.to_numpy()`"), True),
    "get_values": Member(_BOTH, Removed("pandas 1.0", "call `.to_numpy()`")),
    "convert_objects": Member(
        _BOTH, Removed("pandas 1.0", "call `.infer_objects()`, `pandas.to_numeric`"), True
    ),
    "from_csv": Member(_FRAME, Removed("pandas 1.0", "call `pandas.read_csv`")),
    "from_items": Member(_FRAME, Removed("pandas 1.0", "call `pandas.DataFrame(dict(items))`")),
    "get_dtype_counts": Member(
        _FRAME, Removed("pandas 1.0", "call `.dtypes.value_counts()`"), True
    ),
    "set_value": Member(_BOTH, Removed("pandas 1.0", "assign to `.at[row, column]`")),
    "get_value": Member(_BOTH, Removed("pandas 1.0", "read `.at[row, column]`")),
    "clip_lower": Member(_BOTH, Removed("pandas 1.0", "call `.clip(lower=…)`"), True),
    "clip_upper": Member(_BOTH, Removed("pandas 1.0", "call `.clip(upper=…)`"), True),
    "reindex_axis": Member(_FRAME, Removed("pandas 1.0", "call `.reindex(…, axis=…)`"), True),
    "sort": Member(_FRAME, Removed("pandas 1.0", "call `.sort_values()` or `.sort_index()`")),
    "order": Member(("pandas.Series",), Removed("pandas 1.0", "call `.sort_values()`")),
    "slice_shift": Member(_BOTH, Removed(_IN_2_0, "call `.shift()`"), True),
    "tshift": Member(_BOTH, Removed(_IN_2_0, "call `.shift(freq=…)`"), True),
    "is_monotonic": Member(
        ("pandas.Series", "pandas.Index"),
        Removed(_IN_2_0, "read `.is_monotonic_increasing`", "is_monotonic_increasing"),
        True,
    ),
    "applymap": Member(
        _FRAME, Removed(_IN_3_0, "call `.map()`, which pandas 2.1 and newer have"), True
    ),
}

_LINES = Removed(_IN_2_0, "pass `on_bad_lines=` (`'error'`, `'warn'`, `'skip'`)")
_SQUEEZE = Removed(_IN_2_0, "call `.squeeze('columns')` of what is read")
_MANGLE = Removed(_IN_2_0, "leave `mangle_dupe_cols` out: names are made unique")
_PREFIX = Removed(_IN_2_0, "call `.add_prefix()` of what is read")
_DATES = Removed(_IN_3_0, "pass `date_format=`, or call `pandas.to_datetime`")
_CSV = {
    "error_bad_lines": _LINES,
    "warn_bad_lines": _LINES,
    "squeeze": _SQUEEZE,
    "prefix": _PREFIX,
    "mangle_dupe_cols": _MANGLE,
    "tupleize_cols": Removed("pandas 1.0", "leave `tupleize_cols` out"),
    "date_parser": _DATES,
    "delim_whitespace": Removed(_IN_3_0, r"pass `sep='\\s+'`"),
}

#: Arguments that are gone, by function or method.
KEYWORDS: dict[str, dict[str, Removed]] = {
    "pandas.read_csv": _CSV,
    "pandas.read_table": _CSV,
    "pandas.read_excel": {
        "sheetname": Removed("pandas 1.0", "pass `sheet_name=`"),
        "parse_cols": Removed("pandas 1.0", "pass `usecols=`"),
        "skip_footer": Removed("pandas 1.0", "pass `skipfooter=`"),
        "squeeze": _SQUEEZE,
        "convert_float": Removed(_IN_2_0, "leave `convert_float` out"),
        "mangle_dupe_cols": _MANGLE,
    },
    "pandas.read_json": {"numpy": Removed(_IN_2_0, "leave `numpy` out")},
    "pandas.concat": {"join_axes": Removed("pandas 1.0", "call `.reindex()` of the outcome")},
    "pandas.date_range": {"closed": Removed(_IN_2_0, "pass `inclusive=`")},
    "pandas.factorize": {"na_sentinel": Removed(_IN_2_0, "pass `use_na_sentinel=`")},
    "pandas.DataFrame.to_csv": {
        "line_terminator": Removed(_IN_2_0, "pass `lineterminator=`"),
        "tupleize_cols": Removed("pandas 1.0", "leave `tupleize_cols` out"),
    },
    "pandas.DataFrame.fillna": {"method": Removed(_IN_3_0, "call `.ffill()` or `.bfill()`")},
    "pandas.DataFrame.set_axis": {"inplace": Removed(_IN_2_0, "assign what it returns")},
    "pandas.DataFrame.drop_duplicates": {
        "cols": Removed("pandas 1.0", "pass `subset=`"),
        "take_last": Removed("pandas 1.0", "pass `keep='last'`"),
    },
    "pandas.DataFrame.between_time": {
        "include_start": Removed(_IN_2_0, "pass `inclusive=`"),
        "include_end": Removed(_IN_2_0, "pass `inclusive=`"),
    },
    "pandas.DataFrame.resample": {
        "how": Removed("pandas 1.0", "call the method of what `.resample()` returns"),
        "base": Removed(_IN_2_0, "pass `origin=` or `offset=`"),
        "loffset": Removed(_IN_2_0, "add the offset to the index of the outcome"),
    },
}

#: Calls whose result is a DataFrame or a Series.
MAKERS = words(
    "DataFrame Series concat merge read_csv read_excel read_feather read_fwf read_hdf "
    "read_json read_orc read_parquet read_pickle read_sql read_sql_query read_table "
    "get_dummies json_normalize melt pivot_table crosstab DataFrame.from_dict "
    "DataFrame.from_records merge_asof read_sql_table pivot",
    "pandas.",
)
#: Methods of other libraries whose result is a DataFrame.
CONVERSIONS = frozenset({"toPandas", "to_pandas"})
