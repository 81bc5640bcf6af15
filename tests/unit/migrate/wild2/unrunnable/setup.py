from setuptools import setup, find_packages
REQS = ['petastorm>=0.9.0,<0.12', 'numpy']
EXTRAS = {'tf': ['petastorm[tf]'], 'petastorm': ["petastorm"]}
setup(name='our-petastorm-tools', version='1.0', packages=find_packages(), install_requires=REQS, extras_require=EXTRAS,
      entry_points={'console_scripts': ['our-copy=petastorm.tools.copy_dataset:main', 'ours=ours.petastorm_cli:main']},
      keywords='petastorm parquet', url='https://git.local/our/petastorm-tools')
