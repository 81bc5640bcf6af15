"""Entry point of the little estimator platform (orca/elephas flavoured)."""
from estimator import TorchEstimator
from conf import EstimatorConfig
from stores import open_store


def main(spark, directory):
    cfg = EstimatorConfig.from_env(workdir=directory)
    store = open_store(cfg)
    est = TorchEstimator(cfg, store)
    df = spark.range(24).selectExpr('cast(id as float) as feature', 'cast(2 * id as float) as label')
    model = est.fit(df)
    return {'history': model.history, 'backend': model.backend, 'describe': cfg.describe(), 'n': model.n_rows}
