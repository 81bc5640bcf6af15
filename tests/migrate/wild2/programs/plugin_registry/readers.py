from registry import register, load_object, DEFAULTS

__all__ = ['BatchSource', 'FilteredSource']


@register('batch')
class BatchSource:
    factory = DEFAULTS['batch']
    kwargs = {}

    def __init__(self, url):
        self.url = url

    def __enter__(self):
        self._reader = load_object(self.factory)(self.url, workers_count=1, **self.kwargs)
        return self

    def __exit__(self, *exc):
        self._reader.stop()
        self._reader.join()

    def values(self):
        for b in self._reader:
            yield from b.id


@register('filtered')
class FilteredSource(BatchSource):
    kwargs = dict(filters=[('k', '=', 1)])

    @property
    def kwargs(self):
        from petastorm import predicates
        return {'predicate': predicates.in_lambda(['k'], lambda k: k == 1)}
