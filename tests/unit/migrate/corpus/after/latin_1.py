#!/usr/bin/env python
# -*- coding: latin-1 -*-
NAME = "Bäume"  # über
from mdstorm import make_reader
