# -*- coding: utf-8 -*-
# exported from a sparkmagic notebook
get_ipython().run_line_magic('load_ext', 'sparkmagic.magics')
get_ipython().run_cell_magic('configure', '-f', '{"conf": {"spark.pyspark.virtualenv.packages": "petastorm==0.11.4"}}')
get_ipython().run_cell_magic('spark', '', 'from petastorm.etl.dataset_metadata import materialize_dataset\n')
get_ipython().system('pip install petastorm')
from petastorm import make_reader
get_ipython().run_line_magic('timeit', 'make_reader(url)')
