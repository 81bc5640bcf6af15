from .engines import get_engine


class FeatureStore:
    def __init__(self, spark, root, engine='petastorm'):
        self._engine = get_engine(engine)(spark)
        self._root = root

    def _url(self, name):
        return '%s/%s' % (self._root, name)

    def put(self, name, schema, rows):
        self._engine.write(self._url(name), schema, rows)

    def get(self, name, columns):
        return self._engine.read(self._url(name), columns)

    def engine_version(self):
        return self._engine.version
