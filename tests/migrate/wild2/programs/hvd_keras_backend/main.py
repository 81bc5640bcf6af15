from backend import LocalBackend
from params import EstimatorParams
from remote import make_remote_trainer
import util


def main(spark, directory):
    params = EstimatorParams(batch_size=4, epochs=2, train_reader_num_workers=2, label_cols=['y'], feature_cols=['x'])
    util.write_intermediate(spark, directory)
    trainer = make_remote_trainer(params, 'file://' + directory + '/train', 'file://' + directory + '/val')
    results = LocalBackend(num_proc=2).run(trainer)
    return {'ranks': results, 'steps': util.steps(params, directory + '/train', 2)}
