from petastorm import TransformSpec, make_reader
from petastorm.pytorch import DataLoader

from etl.schema import FrameSchema


def mean_box(row):
    return {'frame_id': row['frame_id'], 'n_boxes': row['boxes'].shape[0], 'width': row['camera'].shape[1]}


class FrameLoader:
    spec = TransformSpec(mean_box, removed_fields=['camera', 'boxes'],
                         edit_fields=[('n_boxes', 'int64', (), False), ('width', 'int64', (), False)])

    def __init__(self, url):
        self.url = url

    def __iter__(self):
        with DataLoader(make_reader(self.url, schema_fields=[FrameSchema.frame_id, FrameSchema.camera, FrameSchema.boxes],
                                    transform_spec=self.spec, num_epochs=1), batch_size=2) as loader:
            yield from loader
