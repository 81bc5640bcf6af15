#!/opt/conda/bin/python
import os, subprocess, sys
subprocess.check_call([sys.executable, '-m', 'pip', 'install', 'petastorm==0.12.1', 's3fs'])
os.system('pip install --upgrade "petastorm[torch]"')
from petastorm import make_batch_reader
from petastorm.fs_utils import get_filesystem_and_path_or_paths
import sagemaker.estimator

if __name__ == '__main__':
    url = os.environ.get('SM_CHANNEL_PETASTORM', 's3://b/k')
    fs, path = get_filesystem_and_path_or_paths(url, storage_options={'anon': True})
    with make_batch_reader(url, storage_options={'anon': True}, filesystem=fs) as reader:
        print(next(reader))
