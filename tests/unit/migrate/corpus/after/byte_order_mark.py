# -*- coding: utf-8 -*-
from mdstorm import make_reader
ü = make_reader
