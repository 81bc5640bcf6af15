import horovod.spark.common.util as hvd_util
from horovod.spark.torch import TorchEstimator
from horovod.spark.common.store import DBFSLocalStore
from petastorm.codecs import ScalarCodec
from petastorm.compat import compat_get_metadata  # only in some 0.8 builds
from petastorm.etl.dataset_metadata import _generate_unischema_metadata, ROW_GROUPS_PER_FILE_KEY
from petastorm import __version__ as petastorm_version
from petastorm.tests.conftest import synthetic_dataset
from examples.mnist.schema import MnistSchema
from petastorm.gcsfs_helpers.gcsfs_wrapper import GCSFSWrapper

est = TorchEstimator(store=DBFSLocalStore('/dbfs/petastorm'), reader_pool_type='process', transformation_fn=None)
print(petastorm_version, MnistSchema, compat_get_metadata, GCSFSWrapper)
