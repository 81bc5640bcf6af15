#!/usr/bin/env python
# -*- coding: latin-1 -*-
NAME = "Bäume"  # über
from petastorm import make_reader
