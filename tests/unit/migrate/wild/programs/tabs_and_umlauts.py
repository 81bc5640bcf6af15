# Größenlehre: ein Übungsprogramm mit Tabulatoren
import numpy as np
from petastorm import make_batch_reader as öffne
from petastorm.transform import TransformSpec, edit_field


def Größe_verdoppeln(tafel):
	tafel['größe'] = (tafel['größe'] * 2).astype('float32')
	return tafel


def main(spark, directory):
	if True:
		spark.range(0, 3, 1, 1).selectExpr("float(id) as `größe`").write.parquet(directory + '/maße')
	vorgabe = TransformSpec(func=Größe_verdoppeln,
		edit_fields=[edit_field('größe', np.float32, (), False)])
	with öffne(f'file://{directory}/maße', transform_spec=vorgabe) as leser:
		for gruppe in leser:
			return gruppe.größe.tolist()  # ✓
