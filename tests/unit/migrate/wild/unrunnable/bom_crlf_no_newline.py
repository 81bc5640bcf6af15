# -*- coding: utf-8 -*-
from petastorm import make_reader

r = make_reader("file:///tmp/x")