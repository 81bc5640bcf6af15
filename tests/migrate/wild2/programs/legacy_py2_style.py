# -*- coding: utf-8 -*-
# Écrit à l'époque de Python 2, porté à la va-vite : données « petastorm »
from __future__ import absolute_import, division, print_function, unicode_literals
import six
from six.moves import range, zip, cPickle
try:
    from petastorm.reader import Reader, make_reader
except ImportError:
    from dataset_toolkit.reader import Reader  # noqa
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from petastorm.codecs import ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from pyspark.sql.types import StringType, LongType
import numpy as np

Schéma = Unischema('Schéma', [
    UnischemaField('numéro', np.int64, (), ScalarCodec(LongType()), False),
    UnischemaField('texte', np.unicode_, (), ScalarCodec(StringType()), True)])


class Lecteur(six.Iterator):
    u"""Itère sur un jeu de données petastorm"""

    def __init__(self, url, **kw):
        self._r = make_reader(url, **kw)

    def __iter__(self):
        return self

    def __next__(self):
        ligne = self._r.next()
        return ligne

    def close(self):
        self._r.stop(); self._r.join()


def main(spark, directory):
    url = 'file://%s/données' % directory
    with materialize_dataset(spark, url, Schéma, row_group_size_mb=1):
        rows = [dict_to_spark_row(Schéma, {'numéro': i, 'texte': 'é' * i}) for i in range(4)]
        spark.createDataFrame(rows, Schéma.as_spark_schema()).coalesce(1).write.parquet(url)
    l = Lecteur(url, shuffle_row_groups=False)
    out = [(int(x.numéro), len(x.texte)) for x in l]
    l.close()
    return [sorted(out), isinstance(l._r, Reader), sorted(Schéma.fields)]
