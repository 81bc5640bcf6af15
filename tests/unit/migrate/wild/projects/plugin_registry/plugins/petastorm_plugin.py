from . import register
from petastorm import make_batch_reader


@register("petastorm")
class PetastormPlugin:
    def read(self, url):
        with make_batch_reader(url) as r:
            return sum(int(b.id.sum()) for b in r)
