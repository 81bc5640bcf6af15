import mdstorm.spark as ps
from mdstorm import (make_reader,
					TransformSpec)  # both

class Loader:
	def open(self, url):
		"""Open ä."""
		return make_reader(url, transform_spec=TransformSpec(self.f))

if True:
	ps.make_spark_converter(None)