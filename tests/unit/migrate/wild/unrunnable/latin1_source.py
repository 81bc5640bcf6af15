# -*- coding: latin-1 -*-
# Größe
from petastorm import make_reader
name = "für petastorm"
r = make_reader("file:///t")
