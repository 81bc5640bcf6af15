from petastorm import make_reader
from petastorm.etl.dataset_metadata import get_schema_from_dataset_url, PetastormMetadataError
from petastorm.predicates import in_set
from petastorm.spark_utils import dataset_as_rdd


def run_checks(spark, url, schema):
    out = {}
    stored = get_schema_from_dataset_url(url)
    out['same'] = list(stored.fields) == list(schema.fields)
    out['equal_fields'] = [stored.fields[n] == schema.fields[n] for n in schema.fields]
    with make_reader(url, predicate=in_set(['2021-01-02'], 'day')) as reader:
        rows = list(reader)
    out['day2'] = sorted(int(r.event_id) for r in rows)
    out['types'] = [type(rows[0].price).__name__, str(rows[0].emb.dtype), type(rows[0].small).__name__, str(rows[0].day)]
    out['rdd'] = sorted(dataset_as_rdd(url, spark, [schema.event_id, schema.price]).map(lambda r: str(r.price)).collect())
    try:
        get_schema_from_dataset_url(url.replace('events', 'nope'))
    except (PetastormMetadataError, OSError) as e:
        out['missing'] = True
    return out
