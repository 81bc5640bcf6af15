import petastorm as EXTENSION_OF

from . import readers
from .readers import read_ids
