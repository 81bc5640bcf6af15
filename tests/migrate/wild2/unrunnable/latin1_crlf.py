# -*- coding: latin-1 -*-
# données petastorm
from petastorm import make_reader
from petastorm.unischema import (Unischema,
                                 UnischemaField)

url = 'file:///données'
with make_reader(url) as r:
    print(next(r))
