from rank_io import read_pairs, write_pairs
from rank_views import QueryView, DocView, BaseSchema


class Pipeline(object):
    def __init__(self, spark, directory):
        self.spark, self.url = spark, 'file://%s/rank' % directory

    def run(self):
        write_pairs(self.spark, self.url)
        return {'q': read_pairs(self.url, QueryView), 'd': read_pairs(self.url, DocView),
                'base': list(BaseSchema.fields), 'views': [sorted(QueryView.fields), sorted(DocView.fields)],
                'names': [type(BaseSchema).__name__, QueryView._name]}
