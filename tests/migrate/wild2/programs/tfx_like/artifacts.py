import re

_SCHEME = re.compile(r'^petastorm\+(?P<url>\w+://.*)$')


class Examples:
    TYPE_NAME = 'PetastormExamples'

    def __init__(self, uri):
        self.uri = uri

    @property
    def url(self):
        m = _SCHEME.match(self.uri)
        if not m:
            raise ValueError('not a petastorm+... uri: %s' % self.uri)
        return m.group('url')
