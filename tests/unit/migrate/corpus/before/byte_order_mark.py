# -*- coding: utf-8 -*-
from petastorm import make_reader
ü = make_reader
