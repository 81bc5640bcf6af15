from petastorm.fs_utils import normalize_dir_url


def dataset_url(directory, name):
    return normalize_dir_url('file://' + directory + '/' + name + '/')
