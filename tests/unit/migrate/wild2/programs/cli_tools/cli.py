import argparse

from commands import COMMANDS


def build_parser():
    parser = argparse.ArgumentParser(prog='dataset-tool', description='Handle our petastorm datasets.')
    sub = parser.add_subparsers(dest='command')
    mk = sub.add_parser('make', help='make a petastorm dataset')
    mk.add_argument('url')
    mk.add_argument('--rows', type=int, default=5)
    cp = sub.add_parser('copy', help='see petastorm-copy-dataset.py')
    cp.add_argument('url')
    cp.add_argument('target')
    cp.add_argument('--field-regex', nargs='+')
    for name in ('describe', 'count'):
        p = sub.add_parser(name)
        p.add_argument('url')
        p.add_argument('--pool', choices=['thread', 'process', 'dummy'], default='thread')
    return parser


def run(spark, args):
    return COMMANDS[args.command](spark, args)
