"""What a plan must keep, for people: each broken rule in one line, with the nearest value that keeps it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dse.plan.constraints import ALL_DEVICES, DIVIDING_WIDTHS
from dse.plan.model import Transformer
from dse.plan.problem import PlanProblem, divisors
from dse.plan.recomputation import ALL_SETS, module_sets, modules_in, modules_of, nearest_modules, set_word
from dse.plan.training_plan import AS_STACK, AXES, ROUNDS, USUAL_ORDER
from hardware.inputs import Fault, shown
from hardware.precisions import ELEMENT_BYTES, halved


def device_divisors(problem: PlanProblem) -> Sequence[int]:
    """What a width of the mesh may be: the divisors of the devices, or anything up to them where some may be idle."""
    if problem.relaxed == ALL_DEVICES:
        return range(1, problem.devices + 1)
    return divisors(problem.devices)


def tensor_widths(problem: PlanProblem) -> list[int]:
    """Widths that divide devices, heads and feed-forward networks; keys are copied where they are fewer.

    Without the constraint that they divide, heads and columns are padded, and there is a head for each rank.
    """
    model, every, heads = problem.model, device_divisors(problem), _heads(problem.model)
    if problem.relaxed == DIVIDING_WIDTHS:
        padded = [pair for pair in heads if pair[0] != pair[1]]
        return [width for width in every if width <= min(each for each, _ in heads) and _copied(padded, width)]
    cut = [each for each, _ in heads]
    if model.dense_layers:
        cut.append(model.feed_forward)
    if model.experts is not None and model.experts.shared:
        cut.append(model.experts.shared * model.experts.width)
    return [width for width in divisors(math.gcd(*cut)) if width in every and _copied(heads, width)]


def _heads(model: Transformer) -> list[tuple[int, int]]:
    """(heads, heads of keys) of what mixes tokens. Mamba's steps need all channels: it is whole on each rank."""
    attentions = (model.of_kind(kind) for kind in model.kinds if kind.attends)
    heads = list(dict.fromkeys((own.heads, own.key_heads) for own in attentions))
    if model.recurrence is not None:
        every = 1 if model.recurrence.kind == "mamba" else model.recurrence.heads
        heads.append((every, model.recurrence.key_heads or every))
    return heads


def _copied(heads: list[tuple[int, int]], width: int) -> bool:
    """Whether ranks have as many heads of keys each, or copies of one."""
    return all(keys % width == 0 or width % keys == 0 for _, keys in heads)


def context_widths(problem: PlanProblem) -> list[int]:
    """Widths that divide devices and tokens; a recurrence has all tokens of a sample on a rank."""
    every = device_divisors(problem)
    if problem.model.recurrence is not None:
        return [1]
    return [width for width in divisors(problem.sequence) if width in every]


def pipeline_depths(problem: PlanProblem) -> list[int]:
    """Numbers of stages that divide the devices and leave each a layer."""
    return [depth for depth in device_divisors(problem) if depth <= problem.model.layers]


def data_widths(problem: PlanProblem) -> list[int]:
    """Numbers of replicas that divide devices and batch."""
    every = device_divisors(problem)
    return [width for width in divisors(problem.global_batch) if width in every]


def expert_widths(problem: PlanProblem, stage_ranks: int) -> list[int]:
    """Widths that divide the experts and the ranks of a stage; 1 for a model without experts."""
    experts = problem.model.experts
    if experts is None:
        return [1]
    if problem.relaxed == DIVIDING_WIDTHS:
        return [width for width in divisors(stage_ranks) if width <= experts.routed]
    return divisors(math.gcd(experts.routed, stage_ranks))


def recomputations(problem: PlanProblem) -> list[str]:
    """What recomputation may be where it is left open: modules that the model has; every eighth layer of eight."""
    has, modes = {*modules_in(problem.model)}, list(problem.stack.recomputations.value)
    if ALL_SETS in modes:
        sets = module_sets(problem.model, problem.stack.attention.value == "fused")
        modes = [*map(set_word, sets), *modes]
    fitting = (mode for mode in dict.fromkeys(modes) if mode != ALL_SETS and _every(mode) <= problem.model.layers)
    return [mode for mode in fitting if has.issuperset(modules_of(mode)) and (mode != "op" or has_operators(problem))]


def has_operators(problem: PlanProblem) -> bool:
    """Whether ``op`` is defined: of layers with plain attention and a feed-forward network behind it."""
    model = problem.model
    plain = all(kind.attends and kind.network and not kind.recurs for kind in model.kinds)
    gates = model.attention_gate or model.head_gates
    return plain and not (model.parallel_norms or gates or model.indexer or model.values_are_keys)


def no_mode_rule(problem: PlanProblem) -> str:
    """Why a model can have none of the modes of its stack."""
    model, has = problem.model, modules_in(problem.model)
    modes = problem.stack.recomputations.value
    lacking = dict.fromkeys(name for mode in modes for name in modules_of(mode) if name not in has)
    reasons = [f"{model.name} has no {' and no '.join(lacking)} (its modules: {', '.join(has)})"] if lacking else []
    if "op" in modes and not has_operators(problem):
        reasons.append(f"op is defined for layers of attention and a feed-forward network alone, not for {model.name}")
    if any(_every(mode) > model.layers for mode in modes):
        reasons.append(f"no mode fits {model.name}: K of full/K must be at most its number of layers ({model.layers})")
    return "; ".join(reasons)


def _every(recompute: str) -> int:
    """K of ``full/K``."""
    return int(recompute.partition("/")[2] or 1)


def faults(problem: PlanProblem, where: str = "--plan") -> list[Fault]:
    """What is wrong with the fixed part of a plan, regardless of the rest."""
    fixed = dict(problem.fixed)
    broken = [*_widths(problem, fixed, where)]
    if broken:
        return broken
    broken = [*_products(problem, fixed, where)]
    implied = fixed | _implied(problem, fixed) if not broken else fixed
    parts = _combinations, _hybrid_sharding, _ends
    return broken + [fault for part in parts for fault in part(problem, implied, where)]


def _implied(problem: PlanProblem, fixed: dict[str, Any]) -> dict[str, int]:
    """Widths of the mesh that its other widths leave no choice."""
    rest = problem.devices // math.prod(fixed[key] for key in AXES if key in fixed)
    open_axes = [key for key in AXES if key not in fixed]
    return dict.fromkeys(open_axes, rest) if rest == 1 or len(open_axes) == 1 else {}


def _widths(problem: PlanProblem, fixed: dict[str, Any], where: str) -> Iterator[Fault]:
    devices = problem.devices
    experts = 1 if problem.model.experts is None else problem.model.experts.routed
    layers = [*range(1, problem.model.layers + 1)]
    model = problem.model
    of_devices = f"must divide the number of devices ({devices:,})"
    words = {
        "tensor": (tensor_widths(problem), f"{of_devices}, {_cut(problem)}"),
        "context": (context_widths(problem), _context_rule(problem)),
        "pipeline": (pipeline_depths(problem), f"{of_devices} and be at most the number of layers ({model.layers})"),
        "data": (data_widths(problem), f"{of_devices} and the batch size ({problem.global_batch:,})"),
        "expert": (divisors(experts), f"must divide the number of experts ({experts})"),
        "interleave": (layers, f"must be at most the number of layers ({model.layers})"),
        "microbatch": (divisors(problem.global_batch), f"must divide the batch size ({problem.global_batch:,})"),
        "zero_copies": (
            data_widths(problem),
            f"must divide data, and therefore the number of devices ({devices:,}) and the batch size",
        ),
    }  # fmt: skip
    for key, (valid, rule) in words.items():
        if key in fixed and fixed[key] not in valid:
            yield Fault(where, key, shown(fixed[key]), rule, _closest(fixed[key], valid))
    chip = problem.system.chip
    if _every(fixed.get("recompute", "")) > model.layers:
        rule = f"K of full/K must be at most the number of layers ({model.layers})"
        yield Fault(
            where, "recompute", fixed["recompute"], rule, f"full/{model.layers}" if model.layers > 1 else "full"
        )
    yield from _modules(problem, fixed.get("recompute", "none"), where)
    if fixed.get("offload", AS_STACK) != AS_STACK and chip.host_bytes_per_s is None:
        rule = f"needs the rate of the link to the host, but {chip.name} has no host_bytes_per_s"
        yield Fault(where, "offload", fixed["offload"], rule)
    precision = fixed["precision"]
    half = halved(precision, chip.peak_flops)
    for needed in dict.fromkeys((precision, half)):
        if needed not in chip.peak_flops:
            known = ", ".join(chip.peak_flops)
            yield Fault(
                "--precision",
                "",
                needed,
                f"must be one of {known}, which {chip.name} supports",
                like_precision(needed, chip.peak_flops),
            )


def _modules(problem: PlanProblem, recompute: str, where: str) -> Iterator[Fault]:
    """Modules to recompute that the model lacks."""
    has = modules_in(problem.model)
    lacking = [name for name in modules_of(recompute) if name not in has]
    if lacking:
        rule = f"{problem.model.name} has no {' and no '.join(lacking)}; its modules: {', '.join(has)}"
        yield Fault(where, "recompute", recompute, rule, nearest_modules(recompute, problem.model))
    if recompute == "op" and not has_operators(problem):
        rule = f"must not be op for {problem.model.name}, whose layers are not attention and a network behind it alone"
        yield Fault(where, "recompute", recompute, rule, "full")


def _context_rule(problem: PlanProblem) -> str:
    if problem.model.recurrence is not None:
        return f"must be 1: {problem.model.name} has layers with states, which pass from token to token"
    return f"must divide the number of devices ({problem.devices:,}) and the sequence length ({problem.sequence:,})"


def _cut(problem: PlanProblem) -> str:
    model = problem.model
    heads = _heads(model)
    parts = [
        f"the number of heads ({' and '.join(str(each) for each, _ in heads)})",
        f"be a divisor or multiple of the number of key heads ({' and '.join(str(keys) for _, keys in heads)})",
    ]
    if model.dense_layers:
        parts.insert(1, f"the feed-forward width ({model.feed_forward:,})")
    return ", ".join(parts[:-1]) + " and must " + parts[-1]


def _products(problem: PlanProblem, fixed: dict[str, Any], where: str) -> Iterator[Fault]:
    given = {key: fixed[key] for key in AXES if key in fixed}
    product = math.prod(given.values())
    devices = problem.devices
    listed = " · ".join(f"{key}={value}" for key, value in given.items())
    if (len(given) == len(AXES) and product != devices) or devices % product:
        rests = {key: product // given[key] for key in ("data", "pipeline", "context", "tensor") if key in given}
        hint = next((f"{key}={devices // rest}" for key, rest in rests.items() if devices % rest == 0), None)
        relation = "equal" if len(given) == len(AXES) else "divide"
        rule = f"the product is {product:,}, but must {relation} the number of devices ({devices:,})"
        yield Fault(where, listed, "", rule, hint)
        return
    replicas, size = fixed.get("data", 1), fixed.get("microbatch", 1)
    if problem.global_batch % (replicas * size):
        valid = divisors(problem.global_batch // replicas)
        rule = f"data · microbatch must divide the batch size ({problem.global_batch:,})"
        yield Fault(where, "microbatch", shown(size), rule, _closest(size, valid))
    if {"tensor", "context", "data", "expert"} <= fixed.keys():
        ranks = fixed["tensor"] * fixed["context"] * fixed["data"]
        if ranks % fixed["expert"]:
            rule = f"must divide the number of ranks per stage, tensor · context · data = {ranks:,}"
            yield Fault(
                where, "expert", shown(fixed["expert"]), rule, _closest(fixed["expert"], expert_widths(problem, ranks))
            )
    depth, chunks = fixed.get("pipeline", 1), fixed.get("interleave", 1)
    if depth * chunks > problem.model.layers:
        rule = f"pipeline · interleave must be at most the number of layers ({problem.model.layers})"
        yield Fault(where, "interleave", shown(chunks), rule, str(problem.model.layers // depth))


def _combinations(problem: PlanProblem, fixed: dict[str, Any], where: str) -> Iterator[Fault]:
    width, cut = fixed.get("tensor"), fixed.get("sequence_parallel")
    if width == 1 and cut:
        yield Fault(where, "sequence_parallel", "yes", "must be no with tensor=1: it shards over the tensor axis", "no")
    if width is not None and width > 1 and cut is False and problem.model.experts is not None:
        rule = "must be yes for a model with experts and tensor > 1: each rank sends its own tokens to the experts"
        yield Fault(where, "sequence_parallel", "no", rule, "yes")
    if cut and width and problem.sequence % (width * fixed.get("context", 1)):
        rule = f"tensor · context must divide the sequence length ({problem.sequence:,})"
        yield Fault(where, "sequence_parallel", "yes", rule, "no")
    if fixed.get("interleave", 1) > 1:
        if fixed.get("pipeline") == 1:
            yield Fault(where, "interleave", shown(fixed["interleave"]), "must be 1 with pipeline=1", "1")
        if fixed.get("schedule", "1f1b") != "1f1b":
            yield Fault(where, "schedule", fixed["schedule"], "must be 1f1b with interleave > 1", "1f1b")
        if {"pipeline", "data", "microbatch"} <= fixed.keys():
            rounds = problem.global_batch // (fixed["data"] * fixed["microbatch"])
            if rounds % fixed["pipeline"]:
                rule = (
                    f"the number of microbatches per replica ({rounds}) must be a multiple of pipeline "
                    f"({fixed['pipeline']})"
                )
                yield Fault(where, "interleave", shown(fixed["interleave"]), rule, "1")
    if fixed.get("schedule", "1f1b") != "1f1b" and fixed.get("pipeline") == 1:
        yield Fault(where, "schedule", fixed["schedule"], "must be 1f1b with pipeline=1", "1f1b")
    if fixed.get("schedule") == "dualpipe" and fixed.get("pipeline", 2) % 2:
        rule = f"must be 1f1b where the number of stages ({fixed['pipeline']}) is odd"
        yield Fault(where, "schedule", "dualpipe", rule, "1f1b")
    if fixed.get("schedule") in ROUNDS and {"pipeline", "data", "microbatch"} <= fixed.keys():
        (each, divisor), stages = ROUNDS[fixed["schedule"]], fixed["pipeline"]
        rounds = problem.global_batch // (fixed["data"] * fixed["microbatch"])
        if stages > 1 and (rounds < each * stages or rounds % divisor):
            least = f"at least {each * stages} microbatches per replica{', an even number' if divisor == 2 else ''}"
            rule = f"needs {least}, but has {rounds:,}"
            yield Fault(where, "schedule", fixed["schedule"], rule, "1f1b")


def _hybrid_sharding(problem: PlanProblem, fixed: dict[str, Any], where: str) -> Iterator[Fault]:
    copies, order = fixed.get("zero_copies", 1), fixed.get("order", USUAL_ORDER)
    if copies > 1 and fixed.get("zero") == 0:
        yield Fault(where, "zero_copies", shown(copies), "must be 1 with zero=0, which shards nothing", "1")
    if "data" in fixed and fixed["data"] % copies:
        valid = divisors(fixed["data"])
        rule = f"must divide data ({fixed['data']:,})"
        yield Fault(where, "zero_copies", shown(copies), rule, _closest(copies, valid))
    if "expert" not in fixed:
        return
    names = order.split("-")
    needed = names[: names.index("pipeline") + 1] if fixed.get("pipeline", 1) > 1 else names
    if not {*needed} <= fixed.keys():
        return
    inside = ranks_inside(order, fixed)
    if inside % fixed["expert"]:
        rule = f"must divide the number of contiguous ranks per stage in this order ({inside:,})"
        valid = [width for width in expert_widths(problem, inside) if inside % width == 0]
        yield Fault(where, "expert", shown(fixed["expert"]), rule, _closest(fixed["expert"], valid))
    elif problem.model.experts is not None and {*AXES} <= fixed.keys():
        ranks = fixed["tensor"] * fixed["context"] * fixed["data"] // fixed["expert"]
        if ranks % copies:
            rule = f"must divide the number of ranks with the same experts ({ranks:,})"
            yield Fault(where, "zero_copies", shown(copies), rule, _closest(copies, divisors(ranks)))


def ranks_inside(order: str, widths: Mapping[str, int]) -> int:
    """Ranks of a stage that follow each other: those inside of the pipeline axis, or all where there is one stage."""
    names = order.split("-")
    inside = [name for name in names if name != "pipeline"]
    if widths["pipeline"] > 1:
        inside = names[: names.index("pipeline")]
    return math.prod(widths[name] for name in inside)


def _ends(problem: PlanProblem, fixed: dict[str, Any], where: str) -> Iterator[Fault]:
    """Layers of the first and the last stage."""
    depth, chunks, layers = fixed.get("pipeline"), fixed.get("interleave", 1), problem.model.layers
    given = {key: fixed[key] for key in ("first_layers", "last_layers") if fixed.get(key)}
    for key, count in given.items():
        if depth == 1:
            yield Fault(where, key, shown(count), "must be 0 with pipeline=1", "0")
            return
        if count < chunks:
            yield Fault(where, key, shown(count), f"must be 0, or at least interleave ({chunks})", shown(chunks))
            return
    if not given:
        return
    # Where the stages are open, there are at least two.
    others, rest = (depth or 2) - len(given), layers - sum(given.values())
    if (rest < others * chunks) if others or depth is None else rest != 0:
        key, count = next(reversed(given.items()))
        those = (
            "the other stage" if others == 1 else "the other stages" if depth is None else f"the other {others} stages"
        )
        rule = f"must leave at least {others * chunks} of the {layers} layers to {those}"
        if not others:
            relation = "at most" if depth is None else "equal to"
            rule = f"first_layers + last_layers must be {relation} the number of layers ({layers})"
        most = rest + count - others * chunks
        yield Fault(where, key, shown(count), rule, shown(most) if most >= chunks else None)


def like_precision(precision: str, known: Iterable[str]) -> str:
    """The precision that is nearest by the bytes of an element; of several a floating one, and of these the first."""
    size = ELEMENT_BYTES[precision]
    return min(known, key=lambda each: (abs(math.log(ELEMENT_BYTES[each] / size)), each.startswith("int")))


def _closest(value: int, valid: Sequence[int]) -> str | None:
    return str(min(valid, key=lambda each: (abs(math.log(each / value)), each))) if valid and value > 0 else None
