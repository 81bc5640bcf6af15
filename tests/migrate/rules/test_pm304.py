"""Transforms that make batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.migrate.streaming_checks import MADE, check_stays, check_turned

from mdstorm_migrate.streaming.emitted import HELPERS

SPEC = "from petastorm import TransformSpec\nspec = TransformSpec(f, selected_fields=['a'])\n"
LOADER = "a = conv.make_torch_dataloader(num_epochs=1, transform_spec=spec)\n"


def test_a_transform_becomes_the_collate_function() -> None:
    output = check_turned(
        f"{SPEC}{MADE}{LOADER}", "spec = TransformedBatch(f, selected_fields=['a'])"
    )
    assert "batch_size=32,\n        collate_fn=spec,\n" in output
    assert output.index("class TransformedBatch") < output.index("spec = TransformedBatch")


def test_a_transform_may_be_made_in_the_call_of_the_loader() -> None:
    made = "TransformSpec(partial(f, n=2), selected_fields=['a'])"
    loader = LOADER.replace("=spec", f"={made} if n else None")
    output = check_turned(
        f"from petastorm import TransformSpec\n{MADE}{loader}",
        "collate_fn=TransformedBatch(partial(f, n=2), selected_fields=['a']) if n else None,",
    )
    assert "TransformSpec" not in output


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"from specs import spec\n{MADE}{LOADER}", "made outside of this file"),
        (f"{SPEC}{MADE}{LOADER}isinstance(x, TransformSpec)\n", "used by what stays"),
        (f"{SPEC}{MADE}{LOADER}conv.cache_dir_url\n", ".cache_dir_url"),
        (
            f"{SPEC}from petastorm import make_batch_reader\n"
            f"make_batch_reader(u, transform_spec=spec)\n{MADE}{LOADER}",
            "used by what stays",
        ),
    ],
)
def test_a_transform_that_others_need_keeps_the_converter(text: str, reason: str) -> None:
    check_stays(text, reason)


def test_batches_have_the_types_and_shapes_that_are_asked_for() -> None:
    torch = pytest.importorskip("torch")
    import pandas as pd
    from torch.utils.data import default_collate

    names: dict[str, Any] = {"np": np, "pd": pd, "default_collate": default_collate}
    exec(HELPERS["TransformedBatch"].code, names)

    def double(frame: pd.DataFrame) -> pd.DataFrame:
        assert frame["w"].dtype == np.float32
        frame["flat"] = frame["v"].map(lambda vector: vector * 2)
        return frame

    collate = names["TransformedBatch"](double, [("flat", np.float64, (2, 1), False)], ["v"])
    samples = [{"w": np.float32(i), "v": np.array([i, 1]), "s": f"s{i}"} for i in range(3)]
    batch = collate(samples)
    assert list(batch) == ["w", "s", "flat"]
    assert batch["w"].dtype == torch.float32
    assert batch["s"] == ["s0", "s1", "s2"]
    assert batch["flat"].dtype == torch.float64
    assert batch["flat"].tolist() == [[[0], [2]], [[2], [2]], [[4], [2]]]
