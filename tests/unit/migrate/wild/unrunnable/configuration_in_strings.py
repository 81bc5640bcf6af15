import hydra
import yaml

cfg = yaml.safe_load("""
loader:
  _target_: petastorm.pytorch.DataLoader
reader: petastorm
""")
SETTINGS = {"backend": "petastorm", "loader_cls": "petastorm.pytorch:DataLoader"}
cls = hydra.utils.get_class("petastorm.pytorch.DataLoader")
obj = import_from_string("petastorm.reader.make_reader")
reader = hydra.utils.instantiate({"_target_": "petastorm.make_reader", "spec": {"_target_": "petastorm.TransformSpec"}})
