"""Parts of tables that shapes share."""

from itertools import product

import numpy as np
import pytest

from dse.plan.model_sources import transformer
from dse.serve.shape import Formats, Shape, WeightFormat
from dse.serve.step_tables import KnownParts, step_tables
from dse.serve.step_work import StepWork
from hardware.kernel_model import kernel_model

MODELS = ("llama3-8b", "gpt-oss-120b", "deepseek-v3", "glm-5", "qwen3.5-397b-a17b")


@pytest.mark.parametrize("model", MODELS)
def test_parts_that_are_known_are_those_of_the_shape(model: str) -> None:
    known, kernels, own = KnownParts(), kernel_model("h200-sxm"), transformer(model)
    shapes = (
        [Shape(4), Shape(4, 2, 8, 1), Shape(4, 2, 2, 4), Shape(2, 4, 8, 1), Shape(1, 16, 16), Shape(1, 16, 8, 2)]
        if own.experts
        else [Shape(1), Shape(4)]
    )
    weights: tuple[WeightFormat, ...] = ("bf16", "fp8_block")
    for shape, weight, cache in product(shapes, weights, (1.0, 2.0)):
        work = StepWork(own, shape, Formats(weight, cache), kernels)
        shared, alone = known.tables(work), step_tables(work)
        for part in ("linear_s", "exchange_s", "head_s", "decode_s", "prefill_s"):
            np.testing.assert_array_equal(getattr(shared, part), getattr(alone, part), err_msg=f"{shape} {part}")
