import functools

from petastorm import make_batch_reader, TransformSpec

TRANSFORMS = {}


def register_transform(*, edit_fields=(), removed_fields=()):
    def deco(fn):
        TRANSFORMS[fn.__name__] = TransformSpec(fn, edit_fields=list(edit_fields), removed_fields=list(removed_fields))
        return fn
    return deco


def with_reader(**reader_kwargs):
    def deco(fn):
        @functools.wraps(fn)
        def inner(url, *args, **kw):
            with make_batch_reader(url, **reader_kwargs) as reader:
                return fn(reader, *args, **kw)
        return inner
    return deco


@register_transform(edit_fields=[("s", "float32", (), False)], removed_fields=["id"])
def scaled(pdf):
    pdf["s"] = (pdf.id * 0.5).astype("float32")
    return pdf[["s"]]


@with_reader(num_epochs=2, shuffle_row_groups=False, transform_spec=TRANSFORMS["scaled"])
def collect(reader, column="s"):
    return [float(v) for b in reader for v in getattr(b, column)]


def main(spark, directory):
    spark.range(0, 4, 1, 1).write.parquet(directory + "/t")
    return {"values": collect("file://" + directory + "/t"), "name": collect.__name__}
