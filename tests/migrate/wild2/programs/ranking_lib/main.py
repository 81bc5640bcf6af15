from rank_pipeline import Pipeline
import settings


def main(spark, directory):
    p = Pipeline(spark, directory)
    out = p.run()
    out['settings'] = [settings.ENGINE_NAME, settings.supports('weighted')]
    return out
