import abc
import importlib

from artifacts import Examples


class Component(abc.ABC):
    @abc.abstractmethod
    def execute(self, ctx): ...


class ExampleGen(Component):
    def __init__(self, payload_format):
        assert payload_format in ('petastorm', 'parquet'), 'unknown payload format'
        self.payload_format = payload_format

    def execute(self, ctx):
        if self.payload_format == 'petastorm':
            from schema_gen import materialize
            uri = 'petastorm+file://' + ctx['root'] + '/examples'
            materialize(ctx['spark'], Examples(uri).url)
        else:
            raise NotImplementedError
        return {'examples': Examples(uri)}


class Trainer(Component):
    def __init__(self, module, fn):
        self.module, self.fn = module, fn

    def execute(self, ctx):
        return {'result': getattr(importlib.import_module(self.module), self.fn)(ctx['examples'])}
