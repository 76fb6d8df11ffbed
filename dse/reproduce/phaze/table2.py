"""Table 2: the best architecture, placement and training choices of each model."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dse.reproduce.phaze.context import Answered, Context, plan_at, position
from dse.reproduce.phaze.published import Architecture, Cores, Placement, Table2
from dse.reproduce.section import Comparison, Row, Section, Table, not_measured, ratio, shown, times
from hardware.units import KIB, MIB, bytes_from_gib

HEADERS = (
    "model",
    "source",
    "{tc, vc, x, y, vc lanes}",
    "{glb, L2 tc, L2 vc}",
    "{p, d, t}",
    "mbs",
    "activations",
    "HBM",
    "samples/s",
    "paper's machine",
    "ours / paper's",
    "proof",
)

_NOTES = (
    "“paper's machine”: samples/s of the paper's accelerator under the same cost model, with our placement and HBM "
    "size. If the search is proven optimal, ours / paper's is at least 1.",
    "Spotlight's accelerators are not in the search space; see Figure 4 for their costs.",
    "The paper's glb_bw of 4,096 words per cycle is not a design choice here but a constant of the cost model.",
)


def table2(context: Context) -> Section:
    """Ours under every cost model next to the paper's, for every chosen model."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    same: dict[str, list[tuple[bool, bool, bool]]] = {}
    for model in context.models:
        published = context.paper.models[model].table_2
        rows.append(_published_row(model, published))
        rows.append(("", "Spotlight (paper)", cores_text(published.spotlight), memory_text(published.spotlight)))
        for cost_model in context.ways(model):
            answered = context.model_search(model, cost_model)
            reference = paper_throughput(context, model, cost_model, published.accelerator, answered)
            rows.append(_our_row(model, cost_model, answered, reference))
            cause = f"{_loses(answered, reference)}; {not_measured(context.prices(cost_model))}"
            comparisons += _comparisons(model, cost_model, answered, published, reference, cause)
            same.setdefault(cost_model, []).append(_same(answered, model, published))
    notes = [_agreement(cost_model, equal) for cost_model, equal in same.items()]
    padded = tuple((*row, *("",) * (len(HEADERS) - len(row))) for row in rows)
    title = "Table 2: architecture and placement for each model"
    return Section("table2", title, (Table(HEADERS, padded),), (*notes, *_NOTES), tuple(comparisons))


def cores_text(cores: Cores) -> str:
    """{num_tc, num_vc, PE_x, PE_y, PE_vc}."""
    return f"{{{cores.tensor_cores}, {cores.vector_cores}, {cores.width}, {cores.depth}, {cores.lanes}}}"


def our_cores(machine: Mapping[str, Any]) -> Cores:
    """The cores of an architecture as a result holds it."""
    return Cores(
        tensor_cores=machine["tensor_cores"],
        vector_cores=machine["vector_cores"],
        width=machine["core_width"],
        depth=machine["core_depth"],
        lanes=machine["vector_lanes"],
    )


def our_memory_text(machine: Mapping[str, Any]) -> str:
    """{glb, L2 of a tensor core, L2 of a vector core} of an architecture as a result holds it."""
    sizes = [machine[name] for name in ("global_buffer_bytes", "tensor_l2_bytes", "vector_l2_bytes")]
    return "{" + ", ".join(_size_text(size) for size in sizes) + "}"


def _size_text(size_bytes: float) -> str:
    return f"{size_bytes / MIB:g} MB" if size_bytes >= MIB else f"{size_bytes / KIB:g} KB"


def memory_text(memory: Architecture) -> str:
    """{glb, L2 of a tensor core, L2 of a vector core} as the paper prints them."""
    sizes = (memory.global_buffer_mb, memory.tensor_l2_mb, memory.vector_l2_mb)
    return "{" + ", ".join(_size_text(size * MIB) for size in sizes) + "}"


def _shape_text(pipeline: int, data: int, tensor: int) -> str:
    return f"{{{pipeline}, {data}, {tensor}}}"


def _published_row(model: str, published: Table2) -> Row:
    placement: Placement = published.placement
    return (
        model,
        "paper",
        cores_text(published.accelerator),
        memory_text(published.accelerator),
        _shape_text(placement.pipeline, placement.data, placement.tensor),
        f"{published.microbatch}",
        "recomputed" if published.recompute else "stashed",
        f"{published.hbm_gb} GB",
    )


def _our_row(model: str, cost_model: str, answered: Answered, reference: float | None) -> Row:
    plan = answered.plan(model)
    if plan is None:
        return ("", cost_model, "", "", "", "", "", "", "–", "", "", answered.proof)
    machine = answered.result.solution["architecture"]
    return (
        "",
        cost_model,
        cores_text(our_cores(machine)),
        our_memory_text(machine),
        _shape_text(plan["pipeline"], plan["data"], plan["tensor"]),
        f"{plan['microbatch']}",
        "recomputed" if plan["recompute"] else "stashed",
        f"{plan['hbm_gb']:g} GB",
        shown(plan["throughput_per_s"]),
        shown(reference),
        times(ratio(plan["throughput_per_s"], reference)),
        answered.proof,
    )


def paper_throughput(
    context: Context, model: str, cost_model: str, machine: Architecture, answered: Answered
) -> float | None:
    """Samples/s of the paper's accelerator for one model at the HBM size of our answer; None where it does not fit."""
    plan, index = answered.plan(model), position(answered.machines, machine, machine.global_buffer_mb)
    if plan is None or index is None:
        return None
    placed = plan_at(context.evaluate(model, cost_model, index), bytes_from_gib(plan["hbm_gb"]))
    return None if placed is None else placed.throughput_per_s(context.paper.setup.global_batch)


def _loses(answered: Answered, reference: float | None) -> str:
    """What the paper's machine is worth at the prices of an answer."""
    share = ratio(reference, answered.value)
    proof = "" if answered.proof == "proven" else f"; our search has a {answered.proof}"
    if share is None:
        return f"no plan fits on the paper's machine with our HBM size{proof}"
    return f"under our cost model and placement, the paper's machine has {share:.0%} of our throughput{proof}"


def _same(answered: Answered, model: str, published: Table2) -> tuple[bool, bool, bool]:
    """Whether the cores, {p, d, t}, and microbatch, recomputation and HBM, are the paper's."""
    plan = answered.plan(model)
    if plan is None:
        return False, False, False
    cores = our_cores(answered.result.solution["architecture"])
    return (
        all(getattr(cores, name) == getattr(published.accelerator, name) for name in Cores.model_fields),
        all(plan[name] == getattr(published.placement, name) for name in Placement.model_fields),
        all(plan[name] == getattr(published, name) for name in ("microbatch", "recompute", "hbm_gb")),
    )


def _agreement(cost_model: str, equal: Sequence[tuple[bool, bool, bool]]) -> str:
    """For how many models each part of the answer is the paper's."""
    cores, placed, trained = (sum(column) for column in zip(*equal, strict=True))
    return (
        f"{cost_model}: of {len(equal)} models, {cores} have the paper's cores, {placed} its {{p, d, t}}, and "
        f"{trained} its microbatch, activations and HBM."
    )


def _comparisons(
    model: str, cost_model: str, answered: Answered, published: Table2, reference: float | None, cause: str
) -> Iterator[Comparison]:
    """Every number of the row; ``cause`` is why choices differ."""
    plan = answered.plan(model)
    machine = answered.result.solution.get("architecture")
    cores = None if machine is None else our_cores(machine)

    def number(quantity: str, unit: str, ours: float | None, paper: float | None) -> Comparison:
        return Comparison(model, cost_model, quantity, unit, ours, paper, cause=cause)

    for name in Cores.model_fields:
        ours = None if cores is None else float(getattr(cores, name))
        yield number(name, "", ours, float(getattr(published.accelerator, name)))
    memory = published.accelerator
    for name, size_mb in (
        ("global_buffer", memory.global_buffer_mb),
        ("tensor_l2", memory.tensor_l2_mb),
        ("vector_l2", memory.vector_l2_mb),
    ):
        yield number(name, "MB", None if machine is None else machine[f"{name}_bytes"] / MIB, float(size_mb))
    for name in Placement.model_fields:
        ours = None if plan is None else float(plan[name])
        yield number(name, "", ours, float(getattr(published.placement, name)))
    yield number("microbatch", "", None if plan is None else float(plan["microbatch"]), float(published.microbatch))
    yield number("recompute", "", None if plan is None else float(plan["recompute"]), float(published.recompute))
    yield number("hbm", "GB", None if plan is None else float(plan["hbm_gb"]), float(published.hbm_gb))
    yield number("throughput", "samples/s", answered.value, None)
    yield number("upper bound on throughput", "samples/s", answered.result.bound, None)
    yield number("throughput of the paper's accelerator", "samples/s", reference, None)
