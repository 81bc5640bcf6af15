import contextlib
import io
import json
import runpy
import sys

from cli import build_parser, run


def main(spark, directory):
    out = []
    src, dst = 'file://%s/src' % directory, 'file://%s/dst' % directory
    for argv in (['make', src, '--rows', '12'],
                 ['copy', src, dst, '--field-regex', '^id$', 'val.*'],
                 ['describe', dst],
                 ['count', dst, '--pool', 'dummy']):
        args = build_parser().parse_args(argv)
        out.append(run(spark, args))
    buf = io.StringIO()
    with contextlib.redirect_stdout(buf), contextlib.suppress(SystemExit):
        build_parser().parse_args(['--help'])
    out.append('petastorm' in buf.getvalue() or 'mdstorm' in buf.getvalue())
    return out
