from __future__ import annotations
import sys
from typing import Any, Dict, Generic, Iterable, Iterator, List, NamedTuple, Optional, Protocol, Tuple, TypeVar, cast, get_type_hints, overload
import numpy as np
import petastorm
import petastorm.reader
import petastorm.unischema as pu
from petastorm.codecs import ScalarCodec as Sc

T_ = TypeVar('T_', bound='petastorm.reader.Reader')


class SupportsRead(Protocol):
    schema: pu.Unischema
    def __next__(self) -> Any: ...


class ReaderBox(Generic[T_]):
    reader: Optional[T_] = None

    def __init__(self, reader: T_) -> None:
        self.reader = reader

    def unwrap(self) -> T_:
        return cast('petastorm.reader.Reader', self.reader)


class Part(NamedTuple):
    name: str
    field: pu.UnischemaField


def parts(schema: pu.Unischema) -> Dict[str, Part]:
    return {n: Part(n, f) for n, f in schema.fields.items()}


def typed(x: "petastorm.unischema.Unischema | None", y: 'Optional[petastorm.reader.Reader]' = None) -> petastorm.unischema.Unischema:
    # type: (...) -> petastorm.unischema.Unischema
    return x


def main(spark, directory):
    spark.range(4).selectExpr('id', 'cast(id as tinyint) b', 'cast(id as date) is null n' if False else 'id > 1 as n').write.parquet(directory + '/ty')
    reader = petastorm.make_batch_reader('file://' + directory + '/ty')  # type: petastorm.reader.Reader
    with ReaderBox(reader).unwrap() as r:
        sc: "pu.Unischema" = r.schema
        p = parts(typed(sc))
        total = sum(len(b.id) for b in r)
    hints = get_type_hints(Part)
    return [sorted(p), total, hints['field'] is petastorm.unischema.UnischemaField, p['b'].field.numpy_dtype.__name__,
            isinstance(reader, petastorm.reader.Reader), Sc.__name__]
