"""Inference engines: how they compose steps, how much memory they give to keys and values, and what their host costs.

An engine is a spec (``engines/*.yaml``) of facts, which its documentation states, and of at most eight constants that
are fitted to marked runs (``python -m benchmarks.serving --fit``).
"""

from importlib import resources
from typing import Annotated, Literal

from pydantic import Field

from hardware.documents import read_document
from hardware.input_files import noting
from hardware.inputs import choose, fail, validate
from hardware.spec_fields import NonNegative, Positive, PositiveInteger, Share, Source, StrictModel, is_path

Composition = Literal["mixed", "prefill first", "whole prompts"]
"""``mixed``: decodes, and parts of prompts. ``prefill first``: prompts, while decodes wait. ``whole prompts``: decodes,
and prompts that fit whole."""


class ComposedSteps(StrictModel):
    """How steps are composed."""

    value: Composition
    source: Source


class Flag(StrictModel):
    """Whether something holds, and where that comes from."""

    value: Annotated[bool, Field(strict=True)]
    source: Source


class StepTokens(StrictModel):
    """The default limit on new tokens of a step."""

    value: PositiveInteger
    source: Source


class MemoryRule(StrictModel):
    """The part of memory that weights, keys and values take together; with ``of_rest``, keys and values alone of what
    weights leave.
    """

    value: Share
    of_rest: Annotated[bool, Field(strict=True)] = False
    source: Source


class Layout(StrictModel):
    """How the chips of a replica may share a model.

    Attributes:
        experts: ``any``: over groups of any size; ``one or all``: over one, or over all chips.
        attention_data: ``any`` number of groups with requests of their own; ``whole``: one, or as many as chips.
        source: of both.
    """

    experts: Literal["any", "one or all"]
    attention_data: Literal["any", "whole"]
    source: Source


class Constants(StrictModel):
    """What is fitted.

    Attributes:
        kernels: factor on kernel times without their fixed part.
        starts: factor on the fixed part, some of which graphs hide.
        collectives: factor on times of collectives.
        host_s: any step.
        layer_s: a layer of a step: kernels that no table has.
        launch_s: a layer of a step with parts of prompts takes at least as long, for want of a graph.
        request_s: a request, before its first step.
        token_s: a token of its prompt before that, in a process that takes requests in one after another (tokens of
            vLLM's API server, SGLang's tokenizer manager and TensorRT-LLM's server are made by one process each).
        source: of these constants.
    """

    kernels: Positive = 1.0
    starts: Positive = 1.0
    collectives: Positive = 1.0
    host_s: NonNegative = 0.0
    layer_s: NonNegative = 0.0
    launch_s: NonNegative = 0.0
    request_s: NonNegative = 0.0
    token_s: NonNegative = 0.0
    source: Source

    def before_s(self, prompt: float) -> float:
        """Of a request with a prompt of so many tokens before its first step, where it waits for no other."""
        return self.request_s + prompt * self.token_s


class Engine(StrictModel):
    """An engine.

    Attributes:
        name: vllm, sglang or trtllm, which say how it is launched; with ``-`` and a word for other constants.
        description: of which versions.
        steps: how they are composed.
        step_tokens: the default limit on new tokens of a step.
        memory: the rule for keys and values.
        reserves_output: whether a request is admitted only where prompt and output fit; otherwise it grows, and the
            last request is preempted where memory runs out.
        layout: of a replica.
        constants: fitted.
    """

    name: Annotated[str, Field(pattern=r"^(vllm|sglang|trtllm)(-[a-z0-9][a-z0-9.-]*)?$")]
    description: str
    steps: ComposedSteps
    step_tokens: StepTokens
    memory: MemoryRule
    reserves_output: Flag
    layout: Layout
    constants: Constants


def list_engines() -> list[str]:
    """Names of the engines that come with the package."""
    folder = resources.files("dse.serve") / "engines"
    return sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml"))


def engine(name_or_path: str) -> Engine:
    """The engine of this name, or of a user's own file.

    Raises:
        InputError: there is none (the nearest one is offered), a fault in the file, or it has a name that comes with
            the package, whose intervals are not those of other constants.
    """
    if is_path(name_or_path):
        own = validate(Engine, read_document(name_or_path), name_or_path)
        if own.name in list_engines():
            rule = "must differ from the engines that come with the package"
            raise fail(name_or_path, "name", own.name, rule, f"{own.name}-mine")
        return own
    choose("", "--engine", name_or_path, list_engines(), "engine")
    path = str(resources.files("dse.serve") / "engines" / f"{name_or_path}.yaml")
    with noting():
        return validate(Engine, read_document(path), path)
