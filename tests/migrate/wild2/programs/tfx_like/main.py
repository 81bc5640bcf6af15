import json
import os
from components import ExampleGen, Trainer
from runner import Runner


def main(spark, directory):
    return Runner([ExampleGen('petastorm'), Trainer(module='train_module', fn='run_fn')], directory).run(spark)
