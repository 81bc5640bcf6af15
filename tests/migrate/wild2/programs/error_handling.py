import traceback
import warnings
from petastorm import make_batch_reader, make_reader
from petastorm.errors import NoDataAvailableError
from petastorm.etl.dataset_metadata import PetastormMetadataError
from petastorm.predicates import in_lambda
from petastorm.transform import TransformSpec
import petastorm.errors as perr
import petastorm.etl.dataset_metadata


class Unreadable(RuntimeError):
    pass


def attempt(f, *a, **k):
    try:
        with f(*a, **k) as r:
            return len(list(r))
    except perr.NoDataAvailableError as e:
        return 'NoData: ' + type(e).__name__
    except petastorm.etl.dataset_metadata.PetastormMetadataError as e:
        return 'Meta'
    except (IOError, OSError) as e:
        return 'OSError'
    except ValueError as e:
        return 'ValueError: ' + str(e)[:60]
    except RuntimeError as e:
        raise Unreadable('petastorm said: %s' % e) from e


def boom(df):
    raise ZeroDivisionError('boom')


def main(spark, directory):
    url = 'file://' + directory + '/e'
    spark.range(6).coalesce(1).write.parquet(directory + '/e')
    out = [
        attempt(make_batch_reader, url, cur_shard=3, shard_count=9),
        attempt(make_batch_reader, 'file://' + directory + '/missing'),
        attempt(make_batch_reader, url, cur_shard=1),
        attempt(make_batch_reader, url, cur_shard=5, shard_count=2),
        attempt(make_batch_reader, url, num_epochs=0),
        attempt(make_batch_reader, url, num_epochs='2'),
    ]
    try:
        out.append(attempt(make_batch_reader, url, schema_fields=['^nope$']))
    except Unreadable as e:
        out.append(type(e.__cause__).__name__)
    try:
        with make_batch_reader(url, transform_spec=TransformSpec(boom)) as r:
            next(r)
    except ZeroDivisionError as e:
        out.append(str(e))
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        make_batch_reader(url, cur_shard=0, shard_count=1, shard_seed=1).stop()
    out.append(len([x for x in w if 'make_reader' in str(x.message)]))
    return out
