"""The options of ``dse serve``, and the problem that they pose."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, cast

from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from dse.problem import Posed
from dse.results.result import Objective
from dse.run.options import Option, Options
from dse.serve.checkpoints import Checkpoint, checkpoint
from dse.serve.engine import Engine, engine
from dse.serve.load import Lengths, Load
from dse.serve.problem import MODES, Goals, ServeProblem, Service, Statistic
from dse.serve.requests import GivenRequests, given_requests
from dse.serve.rules import faults, format_fault
from dse.serve.serving_plan import read_plan, with_mode
from dse.serve.shape import WEIGHT_BYTES, WeightFormat
from dse.serve.speculation import Drafter, prediction_layer
from hardware.chips import system
from hardware.inputs import InputError, choose, fail
from hardware.kernel_model import kernel_model
from hardware.number_text import whole_number_of
from hardware.silicon.chips import silicon
from hardware.silicon.interval import total
from hardware.silicon.money import all_in_kw, bill, hourly_usd
from hardware.silicon.power import power
from hardware.spec_fields import is_path

_LARGEST_LENGTH = 2**24
_USUAL_LENGTH = "1024"

_MOST_APART = 2048

MOST_DEVICES = 1024
"""That ``--minimum-devices`` looks at where ``--accelerators`` is not given."""


@dataclass(frozen=True)
class ServeOptions(Options):
    """The options of ``dse serve``."""

    COMMAND: ClassVar[str] = "serve"

    model: Annotated[
        str,
        Option(
            "A transformer: a name, a config.json, or a YAML file.", metavar="MODEL", positional=True, is_source=True
        ),
    ]
    on: Annotated[
        str, Option("The chip, or the system that it comes in; several for one table.", metavar="CHIP|SYSTEM,…")
    ] = "h100-sxm"
    network: Annotated[
        str | None,
        Option(
            "Network between accelerators (default: that of the accelerator's system).", metavar="SPEC", group="Machine"
        ),
    ] = None
    accelerators: Annotated[
        int | None, Option("Accelerators that a configuration may use (default: 8).", min=1, max=2**16)
    ] = None
    prompt: Annotated[str, Option("Tokens of a prompt: a number, or a range of them.", metavar="N|A-B")] = _USUAL_LENGTH
    output: Annotated[str, Option("Tokens of an output: a number, or a range.", metavar="N|A-B")] = _USUAL_LENGTH
    concurrency: Annotated[
        int | None, Option("Requests in flight: one that ends is followed by one.", min=1, max=2**17)
    ] = None
    rate: Annotated[float | None, Option("Requests per second, with Poisson arrivals.", min=1e-6, max=1e6)] = None
    requests: Annotated[
        str | None,
        Option(
            "Requests one by one: prompt_tokens, output_tokens and, for an open loop, arrival_s; a JSON object a line.",
            metavar="FILE.jsonl",
            group="Requests",
        ),
    ] = None
    prefix: Annotated[
        int, Option("First tokens of prompts that requests share.", min=0, max=_LARGEST_LENGTH, group="Requests")
    ] = 0
    hit_rate: Annotated[
        float,
        Option("Share of requests that find this prefix in memory.", min=0, max=1, group="Requests"),
    ] = 0.0
    ttft: Annotated[float | None, Option("At most so many seconds to the first token.", min=1e-6, group="Limits")] = (
        None
    )
    tpot: Annotated[
        float | None, Option("At most so many seconds from one token to the next.", min=1e-6, group="Limits")
    ] = None
    statistic: Annotated[Statistic, Option("Of requests, for which the limits hold.", group="Limits")] = "mean"
    engine: Annotated[
        str,
        Option("Inference engine, or a file of one; several for the best of them.", metavar="vllm|sglang|trtllm|FILE"),
    ] = "vllm"
    precision: Annotated[
        str | None,
        Option(
            "Formats of the checkpoints at hand, of which the best counts (default: that of the published one).",
            metavar="|".join(WEIGHT_BYTES) + ",…",
            group="Machine",
        ),
    ] = None
    plan: Annotated[
        str, Option("Parts of the configuration to fix; the rest is optimised.", metavar="FILE|KEY=VALUE,…")
    ] = ""
    mode: Annotated[
        Literal["aggregated", "disaggregated", "both"],
        Option(
            "Prompts and tokens on the same accelerators, on workers of their own, or the better of the two.",
            group="Machine",
        ),
    ] = "aggregated"
    drafts: Annotated[
        str | None,
        Option(
            "Speculative decoding: tokens that are proposed for each request in a step; of a range the best counts.",
            metavar="N|A-B",
            group="Drafts",
        ),
    ] = None
    acceptance: Annotated[
        float | None,
        Option("Share of drafts that are accepted where those before them were.", min=0, max=1, group="Drafts"),
    ] = None
    draft_model: Annotated[
        str | None,
        Option(
            "What proposes them (default: the multi-token-prediction layer of MODEL).", metavar="MODEL", group="Drafts"
        ),
    ] = None
    minimum_devices: Annotated[
        bool,
        Option(
            "Find the fewest accelerators that keep the limits, instead of the most tokens for each.", group="Limits"
        ),
    ] = False


def posed_problem(options: ServeOptions) -> Posed[ServeOptions, ServeProblem]:
    """The problem that the options pose.

    Raises:
        InputError: a name that nothing has, a file with a fault, options that contradict each other, or a fixed part of
            a configuration that breaks a rule.
    """
    if options.statistic != "mean" and options.ttft is None and options.tpot is None:
        raise fail("dse serve", "--statistic", options.statistic, "must be given together with --ttft or --tpot")
    if options.tpot is not None and options.requests is None and lengths(options.output, "--output").high == 1:
        raise fail(
            "dse serve", "--tpot", options.tpot, "must not be given with --output 1: one token has none after it"
        )
    model = transformer(options.model)
    machine = system(options.on, options.network)
    chip = options.on if is_path(options.on) else machine.chip.name
    if model.head != "causal_lm":
        raise fail("dse serve", "MODEL", model.name, "must write tokens one by one: its tokens see later ones")
    if model.window is not None and model.window.attention is not None:
        raise fail("dse serve", "MODEL", model.name, "must have the same heads in all layers: others are only trained")
    own = checkpoint(model, options.model)
    devices = options.accelerators or (MOST_DEVICES if options.minimum_devices else 8)
    modes: tuple[str, ...] = MODES if options.mode == "both" else (options.mode,)
    fixed = with_mode(read_plan(options.plan), modes)
    modes = tuple(each for each in MODES if each in {*modes, fixed.get("mode")})
    if "disaggregated" in modes:
        _workers_apart(options, devices)
    problem = ServeProblem(
        model=model,
        system=machine,
        kernels=kernel_model(chip),
        engines=_engines(options.engine),
        devices=devices,
        load=_load(options, model, own),
        goals=Goals(options.ttft, options.tpot, options.statistic),
        precisions=_precisions(options, fixed.get("precision"), own),
        caches=("bf16", "fp8") if "fp8" in dict(machine.chip.rates) else ("bf16",),
        fixed=tuple(fixed.items()),
        fewest=options.minimum_devices,
        service=service(chip),
        modes=modes,
        drafts=_drafts(options),
        acceptance=options.acceptance or 0.0,
        drafter=_drafter(options, model),
    )
    if any(problem.drafts) and problem.drafter is None:
        prediction_layer(model)
    for each in problem.precisions:
        if len(problem.precisions) == 1 and (rule := format_fault(problem, each)) is not None:
            raise fail("--precision", "", each, *rule)
    if broken := faults(problem):
        raise InputError(broken)
    name = "accelerators" if problem.fewest else "tokens_per_s_per_accelerator"
    goal = Objective(
        name=name, value=None, unit="1" if problem.fewest else "1/s", sense="min" if problem.fewest else "max"
    )
    return Posed(options, problem, problem.name, problem.document(), goal)


_MOST_DRAFTS = 16


def _drafts(options: ServeOptions) -> tuple[int, ...]:
    """Numbers of drafts a step that are tried."""
    if options.drafts is None:
        for name in ("acceptance", "draft_model"):
            if (value := getattr(options, name)) is not None:
                option = f"--{name.replace('_', '-')}"
                raise fail("dse serve", option, value, "must be given together with --drafts")
        return (0,)
    ends = options.drafts.split("-")
    rule = f"must be a number of drafts a step, or a range of them such as 0-3, from 0 to {_MOST_DRAFTS}"
    try:
        low, *more = (whole_number_of(each.strip()) for each in ends)
    except ValueError:
        raise fail("--drafts", "", options.drafts, rule) from None
    high = more[0] if more else low
    if len(more) > 1 or not 0 <= low <= high <= _MOST_DRAFTS:
        raise fail("--drafts", "", options.drafts, rule)
    if high and options.acceptance is None:
        raise fail("dse serve", "--acceptance", "", "must be given together with --drafts: it depends on your text")
    return tuple(range(low, high + 1))


def _drafter(options: ServeOptions, model: Transformer) -> Drafter | None:
    """The model that proposes tokens, in the format of its checkpoint."""
    if options.draft_model is None:
        return None
    own = transformer(options.draft_model)
    if own.head != "causal_lm" or own.vocabulary != model.vocabulary:
        rule = f"must write tokens of the vocabulary of {model.name} ({model.vocabulary:,})"
        raise fail("--draft-model", "", f"{own.name} ({own.vocabulary:,})", rule)
    return Drafter(own, cast(WeightFormat, checkpoint(own, options.draft_model).weights))


def _workers_apart(options: ServeOptions, devices: int) -> None:
    """InputError where the closed form of workers apart does not answer."""
    if options.prefix:
        rule = "must be 0 with workers apart: what they reuse is not priced"
        raise fail("dse serve", "--prefix", options.prefix, rule, "--mode aggregated")
    if devices > _MOST_APART:
        raise fail("dse serve", "--accelerators", devices, f"must be at most {_MOST_APART:,} with workers apart")
    if devices < 2:
        raise fail("dse serve", "--accelerators", devices, "must be at least 2 with workers apart")


def _engines(text: str) -> tuple[Engine, ...]:
    own = tuple(engine(name) for name in _listed(text))
    names = [each.name for each in own]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise fail("--engine", "", text, f"two engines have the name {repeated}")
    return own


def _listed(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",")))


def _precisions(options: ServeOptions, fixed: str | None, own: Checkpoint) -> tuple[WeightFormat, ...]:
    if options.precision is None:
        name = choose("--plan", "precision", fixed or own.weights, WEIGHT_BYTES, "format of weights")
        return (cast(WeightFormat, name),)
    return tuple(
        cast(WeightFormat, choose("", "--precision", name, WEIGHT_BYTES, "format of weights"))
        for name in _listed(options.precision)
    )


def _load(options: ServeOptions, model: Transformer, own: Checkpoint) -> Load:
    load = _given_load(options) if options.requests is not None else _drawn_load(options)
    prompt, output = load.prompt, load.output
    if options.requests is not None and load.longest > own.context:
        rule = f"must be at most the {own.context:,} tokens that {model.name} takes, prompt and output of a request"
        raise fail(options.requests, "", load.longest, rule)
    if options.requests is None and load.longest > own.context:
        rule = f"with --output {output.high:,} must be at most the {own.context:,} tokens that {model.name} takes"
        most = own.context - output.high
        raise fail("--prompt", "", options.prompt, rule, f"{most}" if most > 0 else None)
    if options.prefix >= prompt.low and options.prefix:
        raise fail("--prefix", "", options.prefix, f"must be shorter than the shortest prompt ({prompt.low:,})")
    if bool(options.prefix) != bool(options.hit_rate):
        raise fail("dse serve", "--prefix", options.prefix, "must be given together with --hit-rate")
    return load


def _drawn_load(options: ServeOptions) -> Load:
    given = [name for name in ("concurrency", "rate") if getattr(options, name) is not None]
    if len(given) != 1:
        rule = "must be given: --concurrency, --rate or --requests" if not given else "must not be given with --rate"
        raise fail("dse serve", "--concurrency", "" if not given else options.concurrency, rule)
    prompt, output = lengths(options.prompt, "--prompt"), lengths(options.output, "--output")
    return Load(prompt, output, options.concurrency or 0, options.rate or 0.0, options.prefix, options.hit_rate)


def _given_load(options: ServeOptions) -> GivenRequests:
    assert options.requests is not None, "only called with a file"
    for name, usual in (("prompt", _USUAL_LENGTH), ("output", _USUAL_LENGTH), ("rate", None)):
        if getattr(options, name) != usual:
            rule = f"must not be given: {options.requests} states it"
            raise fail("dse serve", f"--{name}", getattr(options, name), rule)
    return given_requests(options.requests, options.concurrency or 0, options.prefix, options.hit_rate)


def lengths(text: str, option: str) -> Lengths:
    """``N`` or ``A-B``.

    Raises:
        InputError: anything else, or a range whose end is before its beginning.
    """
    ends = text.split("-")
    rule = "must be a number of tokens, or a range of them such as 512-1024"
    try:
        numbers = [whole_number_of(each.strip()) for each in ends]
    except ValueError:
        raise fail(option, "", text, rule) from None
    if len(numbers) > 2 or not all(1 <= each <= _LARGEST_LENGTH for each in numbers):
        raise fail(option, "", text, f"{rule}, from 1 to {_LARGEST_LENGTH:,}")
    if numbers[0] > numbers[-1]:
        raise fail(option, "", text, "must begin with the smaller number", f"{numbers[-1]}-{numbers[0]}")
    return Lengths(numbers[0], numbers[-1])


def service(name_or_path: str) -> Service | None:
    """What a chip costs in service; None where its spec does not say what it is made of."""
    package = silicon(name_or_path)
    if package is None:
        return None
    drawn, highest = power(package), float(package.clock_hz)
    clock = highest if package.cap_w is None else float(drawn.capped_clock_hz(highest, package.cap_w))
    demand = drawn.demand(clock)
    all_in = all_in_kw(demand if package.cap_w is None else demand.at_most(package.cap_w))
    hourly = hourly_usd(total(bill(package).values()), all_in)
    return Service(all_in, hourly.at_cost, hourly.at_price)
