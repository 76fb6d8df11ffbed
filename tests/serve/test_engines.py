"""Engines that come with the package."""

from pathlib import Path

import pytest
import yaml

from dse.plan.model_sources import transformer
from dse.serve.engine import Constants, engine, list_engines
from dse.serve.shape import Formats, Shape
from dse.serve.step_work import StepWork
from hardware.inputs import InputError
from hardware.kernel_model import kernel_model

MARKS = Path(__file__).parents[2] / "benchmarks" / "data" / "serving" / "fitted_configurations.yaml"


@pytest.mark.parametrize("name", list_engines())
def test_an_engine_has_at_most_eight_constants_and_says_what_they_were_fitted_to(name: str) -> None:
    own = engine(name)
    assert own.name == name
    assert len(Constants.model_fields) - 1 <= 8
    assert "marked configurations" in own.constants.source


def test_an_unknown_engine_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean vllm"):
        engine("vlm")


def test_marked_configurations_are_few_and_of_their_group() -> None:
    fitted = yaml.safe_load(MARKS.read_text(encoding="utf-8"))["fitted"]
    for group, configurations in fitted.items():
        name, origin = group.split()
        assert configurations
        assert len({*configurations}) == len(configurations)
        for each in configurations:
            assert each.split()[2] == name
            assert each.endswith(origin)


def test_models_that_write_no_tokens_are_refused() -> None:
    encoder = transformer("llama3-8b").model_copy(update={"head": "masked_lm"})
    with pytest.raises(InputError, match="must be causal_lm"):
        StepWork(encoder, Shape(), Formats("bf16", 2.0), kernel_model("h100-sxm"))
