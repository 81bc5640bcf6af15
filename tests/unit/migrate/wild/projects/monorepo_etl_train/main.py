from etl.write import write
from training import FrameLoader


def main(spark, directory):
    url = 'file://' + directory + '/frames'
    write(spark, url)
    rows = [(int(i), int(n), int(w)) for b in FrameLoader(url) for i, n, w in zip(b['frame_id'], b['n_boxes'], b['width'])]
    return sorted(rows)
