"""A group of one rank has no collective: an axis of 1 keeps nothing of its collective and costs nothing of it."""

from dataclasses import replace

import numpy as np
import pytest

from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate, min_costs
from dse.plan.plan_arrays import PlanArrays
from dse.plan.search.vocabulary import all_plans
from dse.plan.stack import stack
from dse.plan.training_plan import SETTINGS
from hardware.network import Network
from tests.plan.problems import GENERIC, plan, problem, with_facts
from tests.plan.test_modules import MODELS

MODES = ("none", "selective", "layernorm+mlp", "layernorm+moe", "op", "full", "full/2")
ABOUT_COLLECTIVES = {
    "gathers_again": False, "gathers_operands": True, "keeps_ends_gathered": True, "buffers_gathered": True,
    "overlaps_tensor": False, "overlaps_context": False, "overlaps_expert": True, "overlaps_data": False,
    "overlaps_pipeline": False, "gradient_transfer_bytes": 1.0, "weight_transfer_bytes": 1.0,
    "communicator_bytes": 2.0**30, "link": 0.1, "deduplicates_tokens": True, "dispatch_bytes": 1.0,
    "exchange_processors": 0.5, "ring_bytes": (9.0, 9.0, 9.0, 9.0), "repeats_keys": True,
}  # fmt: skip
"""Facts of a stack that say how a collective runs and what is kept of one, each with another value."""

NO_PART_OF_COLLECTIVES = {
    "name", "description", "date", "platforms", "measured_on", "use",
    "recomputations", "settings_file", "fitted_on", "reserved", "attention", "cross_entropy",
    "grouped", "sorts_tokens", "activation_input_bytes", "cast_bytes", "weight_bytes", "gradient_bytes",
    "optimizer_bytes", "moment_bytes", "launch_s", "fuses_expert_biases", "matrix", "attention_rate", "memory",
}  # fmt: skip
UNFUSED = with_facts(attention="unfused")


def slower(network: Network) -> Network:
    """The same levels, of which each byte takes a thousand times as long and each message a second."""
    inner = None if network.inner is None else slower(network.inner)
    return replace(network, inner=inner, bytes_per_s=network.bytes_per_s / 1000, latency_s=1.0, timed=())


def costs(posed, each):
    """Step, its parts and memory, by the checker; the arrays must agree."""
    checked, arrays = plan_costs(posed, each), evaluate(posed, PlanArrays.of([each]))
    assert arrays.step_s[0] == pytest.approx(checked.step_s, rel=1e-11)
    assert {name: part[0] for name, part in arrays.memory.items()} == pytest.approx(checked.memory, rel=1e-11)
    return checked


def modes_of(model):
    """Modes of recomputation that a model has."""
    without = "moe" if model.experts is None else "mlp" if not model.dense_layers else "-"
    return [mode for mode in MODES if without not in mode]


def test_every_fact_of_a_stack_is_about_collectives_or_not():
    assert {*ABOUT_COLLECTIVES} | NO_PART_OF_COLLECTIVES == {*type(GENERIC).model_fields}
    assert not {*ABOUT_COLLECTIVES} & NO_PART_OF_COLLECTIVES


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize("model", MODELS)
def test_on_one_device_no_fact_of_a_collective_counts(model, precision):
    posed = problem(MODELS[model], devices=1, batch=4, sequence=512, precision=precision)
    other = replace(posed, stack=with_facts(**ABOUT_COLLECTIVES))
    other = replace(other, system=replace(posed.system, network=slower(posed.system.network)))
    settings = {key: "no" for key in SETTINGS if key.startswith("overlap_")}
    settings |= {"gradient_transfer": "fp32", "weight_transfer": "fp32"}
    for mode in modes_of(MODELS[model]):
        single = plan(recompute=mode, precision=precision)
        expected = costs(posed, single)
        for each in (single, replace(single, zero=3), replace(single, zero=1), replace(single, **settings)):
            found = costs(other, each)
            assert found.time_s == expected.time_s, (mode, each.zero)
            assert found.memory == expected.memory, (mode, each.zero)


WIDE = {"tensor": 2, "sequence_parallel": True, "context": 2, "data": 2, "pipeline": 2, "expert": 2}
ONE = {
    "tensor": ({"tensor": 1, "sequence_parallel": False}, ("tensor",)),
    "sequence_parallel": ({"sequence_parallel": False}, ()),
    "context": ({"context": 1}, ("context",)),
    "expert": ({"expert": 1}, ("expert",)),
    "pipeline": ({"pipeline": 1}, ("transfer", "bubble")),
    "replicas": ({"data": 1, "context": 1, "expert": 4, "tensor": 4, "zero": 3}, ("data", "sharding")),
}
FACTS_OF = {
    "tensor": ("gathers_again", "gathers_operands", "overlaps_tensor"),
    "sequence_parallel": ("gathers_again", "gathers_operands"),
    "context": ("overlaps_context",),
    "expert": ("overlaps_expert",),
    "pipeline": ("overlaps_pipeline",),
    "replicas": (
        "keeps_ends_gathered", "buffers_gathered", "overlaps_data", "gradient_transfer_bytes", "weight_transfer_bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("axis", ONE)
@pytest.mark.parametrize("model", ["dense", "experts", "latent"])
def test_an_axis_of_one_pays_for_no_collective_of_its_own(model, axis):
    changed, parts = ONE[axis]
    mesh = WIDE | changed | ({"expert": 1} if MODELS[model].experts is None else {})
    devices = mesh["tensor"] * mesh["context"] * mesh["data"] * mesh["pipeline"]
    for mode in modes_of(MODELS[model]):
        for software in (GENERIC, with_facts(**ABOUT_COLLECTIVES)):
            posed = problem(MODELS[model], devices=devices, batch=16, sequence=512, software=software)
            each = plan(**mesh, recompute=mode)
            found = costs(posed, each)
            assert [found.time_s[part] for part in parts] == [0.0] * len(parts)
            for fact in FACTS_OF[axis]:
                value = getattr(GENERIC, fact).value
                other = value + 1 if isinstance(value, float) else not value
                again = costs(replace(posed, stack=with_facts(posed.stack, **{fact: other})), each)
                assert (again.time_s, again.memory) == (found.time_s, found.memory), fact


@pytest.mark.parametrize("model", ["experts", "latent"])
@pytest.mark.parametrize("software", [GENERIC, UNFUSED, stack("torchtitan-2024")], ids=["fused", "unfused", "titan"])
def test_every_second_product_keeps_nothing_of_an_exchange_among_one_rank(model, software):
    """torchtitan puts ``all_to_all_single`` on its list; with one rank of experts no such operator runs.

    So the number of ranks changes what is kept by both results of the exchange, T · active · h elements each of two
    bytes, in each layer with experts.
    """
    posed = problem(MODELS[model], devices=8, batch=8, sequence=512, software=software)
    alone, spread = (costs(posed, plan(data=8, expert=width, recompute="op")) for width in (1, 8))
    sizes, sparse = posed.model, posed.model.layers - posed.model.dense_layers
    exchanged = 2 * 2 * 512 * sizes.experts.active * sizes.hidden * sparse
    assert spread.memory["activations"] - alone.memory["activations"] == pytest.approx(exchanged)
    full, full_spread = (costs(posed, plan(data=8, expert=width, recompute="full")) for width in (1, 8))
    assert full.memory["activations"] == full_spread.memory["activations"]


def test_a_layer_with_experts_on_one_rank_keeps_what_the_list_of_operators_names():
    """Mixtral: the input, wq, wv, the context and the logarithms of softmax's sums; the experts keep nothing."""
    posed = problem("mixtral-8x7b", devices=8, batch=8)
    alone = costs(posed, plan(data=8, recompute="op"))
    assert alone.memory["activations"] == pytest.approx(2048 * (2 * (3 * 4096 + 1024) + 4 * 32) * 32)


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_replicas_of_which_none_shares_are_those_of_no_sharing(copies):
    posed = problem("llama3-8b", devices=copies, batch=8)
    none = costs(posed, plan(data=copies, zero=0))
    for zero in (1, 2, 3):
        assert costs(posed, plan(data=copies, zero=zero, zero_copies=copies)).memory == none.memory


def test_weights_of_experts_alone_are_gathered_where_they_alone_are_shared_out():
    """Ranks of the tensor axis hold other parts of all weights but experts', which they share out."""
    posed = problem(MODELS["experts"], devices=4, batch=4, sequence=512)
    mesh = {"tensor": 4, "sequence_parallel": True}
    none, shared = (costs(posed, plan(**mesh, zero=zero)) for zero in (0, 3))
    sizes = posed.model.experts
    experts = 3 * posed.model.hidden * sizes.width * sizes.routed
    gathered = 2 * 2 * experts
    assert shared.memory["working"] - none.memory["working"] == pytest.approx(gathered)
    kept = posed.model.layers * 2 * experts
    assert none.memory["weights"] - shared.memory["weights"] == pytest.approx(kept * (1 - 1 / 4))


@pytest.mark.parametrize("facts", [{}, ABOUT_COLLECTIVES], ids=["generic", "other facts"])
@pytest.mark.parametrize("model", ["dense", "experts", "latent"])
def test_memory_is_bounded_where_some_weights_have_one_replica(model, facts):
    posed = problem(MODELS[model], devices=4, batch=4, sequence=512, software=with_facts(**facts))
    plans = all_plans(posed)
    most = replace(plans, zero=np.full(plans.count, 3), zero_copies=np.ones(plans.count, dtype=np.int64))
    assert (min_costs(posed, most)[1] <= evaluate(posed, plans).memory_bytes * (1 + 1e-12)).all()
