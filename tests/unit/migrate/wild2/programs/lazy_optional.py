"""petastorm is an optional dependency of this library (pip install ourlib[petastorm])."""
import importlib
import logging
import typing as t

_log = logging.getLogger(__name__)

try:
    import petastorm
    from petastorm import make_batch_reader as _mbr, make_reader as _mr
except ImportError as exc:  # pragma: no cover
    petastorm = None
    _import_error = exc
else:
    _import_error = None

if t.TYPE_CHECKING:
    from petastorm.reader import Reader
    from petastorm.unischema import Unischema as _U


def _require_petastorm():
    if petastorm is None:
        raise ImportError('petastorm is required: pip install "petastorm>=0.11"') from _import_error


class LazyModule:
    def __init__(self, name):
        self.__dict__['_name'] = name

    def __getattr__(self, item):
        return getattr(importlib.import_module(self._name), item)


tf_utils = LazyModule('petastorm.tf_utils')
pt = LazyModule('petastorm.pytorch')


def open_any(url: str, prefer_rows: bool = False) -> "t.Union[Reader, t.Iterator]":
    _require_petastorm()
    last = None
    for factory in ((_mr, _mbr) if prefer_rows else (_mbr, _mr)):
        try:
            return factory(url, workers_count=1)
        except (RuntimeError, petastorm.errors.NoDataAvailableError) as e:
            last = e
            _log.debug('petastorm could not open %s: %r', url, e)
    raise last


def fields_of(schema: '_U') -> t.List[str]:
    return list(schema.fields)


def main(spark, directory):
    import petastorm.errors
    spark.range(5).write.parquet(directory + '/z')
    with open_any('file://' + directory + '/z') as r:
        names = fields_of(r.schema)
        with pt.DataLoader(r, batch_size=5) as loader:
            total = sum(int(b['id'].sum()) for b in loader)
    return [names, total, callable(tf_utils.make_petastorm_dataset), isinstance(_import_error, type(None))]
