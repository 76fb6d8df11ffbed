"""Every problem and every method by the conformance kit, on small instances."""

import json
from collections import defaultdict
from functools import cache

import pytest

from dse.fabric.methods import COSTS as FABRIC_COSTS
from dse.partition.methods import METHODS as PARTITION_METHODS
from dse.problem import pose, problem_type, registered
from dse.testing import conformance
from dse.testing.alterations import kinds
from dse.wafer.methods import METHODS as WAFER_METHODS
from tests.codesign.chip_spaces import space_file
from tests.codesign.tiny import MODEL
from tests.fabric.documents import FEED_FORWARD, fabric_document
from tests.parallel.problems import mlp_text
from tests.trace.profiles import EXECUTION, training_step
from tests.wafer.small import conv_line, graph_text

LAYER = {
    "schema": "dse.schedule/1", "name": "layer", "tensor_cores": 2, "vector_cores": 2,
    "operators": [
        {"name": "a", "kind": "tensor", "single_s": 2e-4, "all_cores_s": 1e-4},
        {"name": "b", "kind": "vector", "single_s": 1e-4, "all_cores_s": 6e-5},
        {"name": "c", "kind": "fused", "single_s": 3e-4, "all_cores_s": 2e-4},
        {"name": "d", "kind": "tensor", "single_s": 1e-4, "all_cores_s": 8e-5},
    ],
    "edges": [["a", "b"], ["a", "c"], ["b", "d"]],
}  # fmt: skip

LAYERS = {
    "schema": "dse.placement/1", "name": "chain", "accelerators": 8, "microbatches": 16, "hbm_bytes": 3e9,
    "network_bytes_per_s": 4e9, "recompute": False, "state_factor": 4, "gradient_sync_factor": 2,
    "tensor_parallel": {"1": {
        "layers": [
            {"name": f"l{number}", "forward_s": 1e-3 * (1 + number % 2), "backward_s": 2e-3, "weight_bytes": 1e8,
             "activation_bytes": 5e7, "sliced": False}
            for number in range(4)
        ],
        "edges": [[f"l{number}", f"l{number + 1}", 1e6] for number in range(3)],
    }},
}  # fmt: skip

GRAPH = {
    "schema": "dse.graph/1", "name": "diamonds",
    "nodes": [{"name": f"n{number}", "latency_s": 1e-6 * (1 + number % 3), "output_bytes": 20} for number in range(9)],
    "edges": [["n0", "n1"], ["n0", "n2"], ["n1", "n3"], ["n2", "n3"], ["n3", "n4"], ["n4", "n5"], ["n4", "n6"],
              ["n5", "n7"], ["n6", "n7"], ["n7", "n8"]],
}  # fmt: skip


TRANSFORMER = {
    "schema": "dse.transformer/1", "name": "small", "layers": 4, "hidden": 512, "heads": 8, "kv_heads": 4,
    "vocabulary": 32000, "sequence": 512, "experts": {"routed": 4, "active": 2, "width": 1024},
}  # fmt: skip
SERVED = {"accelerators": 2, "prompt": "100", "output": "50", "concurrency": 8}
SERVED_AT_RATE = {"accelerators": 2, "prompt": "100-200", "output": "50", "rate": 2.0, "tpot": 0.1}
TRAINED = {"accelerators": 8, "global_batch": 16}
WHOLE = (
    "tensor=2,sequence_parallel=yes,context=1,expert=1,data=2,pipeline=2,interleave=1,schedule=1f1b,zero=1,"
    "microbatch=2,recompute=none,precision=bf16"
)
SMALL_CHIP = {
    "name": "small", "title": "A chip of too little memory",
    "peak_flops": {"bf16": {"value": 1e14, "source": "made up"}},
    "hbm_gib": {"value": 0.01, "source": "made up"}, "hbm_bytes_per_s": {"value": 1e12, "source": "made up"},
    "network": {"name": "nvlink4", "source": "made up"},
}  # fmt: skip

CHOICES = {
    "problem": {
        "name": "triangle",
        "nodes": {
            "intervals": [[0, 4], [2, 6], [4, 8]],
            "costs": [[3, 1, 5], [2, 4], [1, 1, 7]],
            "usages": [[4, 6, 1], [5, 2], [3, 3, 1]],
        },
        "edges": {
            "nodes": [[0, 1], [1, 2], [2, 0]],
            "costs": [[2, 9, 1, 4, 100000000000000000, 3], [5, 2, 1, 3, 8, 0], [1, 6, 2, 4, 1, 9, 3, 3, 3]],
        },
        "usage_limit": 11,
    }
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An instance of each problem, and one of each that nothing fits."""
    folder = tmp_path_factory.mktemp("instances")
    kernels = [conv_line(number, inputs=8, outputs=8) for number in (1, 2, 3)]
    edges = [("conv[1]", "conv[2]"), ("conv[2]", "conv[3]")]
    texts = {
        "layer.json": json.dumps(LAYER),
        "layers.json": json.dumps(LAYERS),
        "too-small.json": json.dumps(LAYERS | {"hbm_bytes": 1e8}),
        "graph.json": json.dumps(GRAPH),
        "model.yaml": MODEL.format(name="tiny", layers=2, hidden=64),
        "transformer.yaml": json.dumps(TRANSFORMER),
        "chip.yaml": json.dumps(SMALL_CHIP),
        "case.kgraph": graph_text(kernels, edges, adapter=3),
        "step.hlo": mlp_text(64),
        "plans.csv": "tensor,data,recompute,zero\n2,,full,1\n3,,none,0\n1,,none,\n",
        "choices.json": json.dumps(CHOICES),
        "no-choices.json": json.dumps({"problem": CHOICES["problem"] | {"usage_limit": 2}}),
        "dataflow.json": json.dumps(FEED_FORWARD),
        "fabric.json": json.dumps(fabric_document(tile=32)),  # fewer flits than with 16
        "small-fabric.json": json.dumps(fabric_document(rows=2, columns=2)),
        "cut-fabric.json": json.dumps(one_io_unit_a_switch(fabric_document(rows=2, columns=4))),
        "profile.json": json.dumps(training_step(ranks=1)),
        "execution.json": json.dumps(EXECUTION),
        "crowded.kgraph": graph_text([conv_line(number) for number in range(1, 8)], [], width=6, height=6),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    space_file(folder)
    (folder / "campaign.yaml").write_text(json.dumps(campaign(folder)))
    return folder


def campaign(folder):
    """A campaign over two problems, with a baseline."""
    question = {
        "schedule": {"problem": "schedule", "layer": str(folder / "layer.json")},
        "place": {"problem": "place", "layers": str(folder / "layers.json")},
        "too small": {"problem": "place", "layers": str(folder / "too-small.json")},
    }
    return {
        "schema": "dse.campaign/1", "name": "two problems", "choose": ["chip"], "weights": {"question": {"place": 2}},
        "axes": {"question": question, "chip": [None, "tpuv4"]}, "baselines": {"old": {"chip": "v100"}},
    }  # fmt: skip


TRAINING = {
    "accelerators": 8, "global_batch": 32, "microbatch": "1", "tensor_parallel": "1", "hbm_gb": "0.02,1",
}  # fmt: skip
FEW = TRAINING | {"area_budget": "1.6759"}
CHIPS = {"accelerators": 8, "global_batch": 16, "space": "space.yaml", "plan": "context=1"}
MODERN = {"accelerators": 4, "global_batch": 8, "hbm_gb": "0.02,1", "area_budget": "1.6759", "plans": "modern"}

SEARCHES = {
    "codesign fixed": ("codesign", "model.yaml", TRAINING | {"fixed": "tpuv4"}),
    "codesign hysteresis": ("codesign", "model.yaml", FEW | {"search": "hysteresis", "hysteresis": 1}),
    "codesign bayesian": ("codesign", "model.yaml", FEW | {"search": "bayesian", "samples": 3}),
    "codesign front": ("codesign", "model.yaml", FEW | {"hbm_gb": "1", "pareto": True}),
    "codesign modern front": ("codesign", "model.yaml", MODERN | {"pareto": True, "objective": "per-watt"}),
}
"""Cases whose results have the entries of another one of :data:`CASES`, or of what the tests of co-search alter."""

CASES = {
    **{f"schedule {method}": ("schedule", "layer.json", {"method": method}) for method in ("auto", "cp-sat", "scip")},
    "place": ("place", "layers.json", {}),
    **{
        f"partition {method}": ("partition", "graph.json", {"method": method, "chips": 3, "samples": 20})
        for method in PARTITION_METHODS
    },
    "partition for latency": ("partition", "graph.json", {"objective": "latency", "chips": 3, "samples": 20}),
    **{f"wafer {method}": ("wafer", "case.kgraph", {"method": method, "moves": 2000}) for method in WAFER_METHODS},
    "codesign": ("codesign", "model.yaml", FEW),
    "codesign modern": ("codesign", "model.yaml", MODERN),
    "codesign chips": ("codesign", "transformer.yaml", CHIPS | {"objective": "per-dollar", "within": 1}),
    "plan": ("plan", "transformer.yaml", TRAINED | {"sensitivity": True, "constraints": True}),
    "predict": ("predict", "transformer.yaml", TRAINED | {"plan": "tensor=2,recompute=full"}),
    "predict batch": ("predict", "transformer.yaml", TRAINED | {"batch": "plans.csv"}),
    "predict measured": ("predict", "transformer.yaml", TRAINED | {"plan": "tensor=2", "measured": "profile.json"}),
    "plan measured": ("plan", "transformer.yaml", TRAINED | {"measured": "profile.json"}),
    "parallel linkage": ("parallel", "step.hlo", {"mesh": "data=2,model=2", "method": "linkage"}),
    "parallel exact": ("parallel", "step.hlo", {"mesh": "4", "memory_gb": 0.015, "why": "params['w1']"}),
    "parallel activations": (
        "parallel",
        "step.hlo",
        {"mesh": "4", "memory_gb": 0.1, "activations": True, "overlap": True},
    ),
    "parallel pipeline": (
        "parallel",
        "step.hlo",
        {"strategy": "pipeline", "mesh": "4", "stages": 2, "microbatches": 3, "recompute": True},
    ),
    "parallel hybrid": ("parallel", "step.hlo", {"strategy": "hybrid", "mesh": "4", "microbatches": 3}),
    "parallel all": ("parallel", "step.hlo", {"strategy": "all", "mesh": "4", "stages": 2, "microbatches": 3}),
    "parallel contest": ("parallel", "choices.json", {}),
    "parallel count": ("parallel", "step.hlo", {"mesh": "4", "objective": "count"}),
    **{
        f"fabric {cost}": (
            "fabric",
            "dataflow.json",
            {"fabric": "fabric.json", "cost": cost, "chains": 3, "moves": 300},
        )
        for cost in FABRIC_COSTS
    },
    "fabric cut": ("fabric", "dataflow.json", {"fabric": "cut-fabric.json", "chains": 2, "moves": 300}),
    "serve": ("serve", "transformer.yaml", SERVED | {"plan": "batch=4", "ttft": 0.5, "tpot": 0.1}),
    "serve at a rate": ("serve", "transformer.yaml", SERVED_AT_RATE | {"minimum_devices": True}),
    "trace": ("trace", "profile.json", {}),
    "trace without times": ("trace", "execution.json", {}),
    "campaign": ("campaign", "campaign.yaml", {}),
    "wafer sweep": ("wafer", "case.kgraph", {"method": "rows", "sweep": ("side=2,8,20",), "moves": 0}),
}
EVERY = CASES | SEARCHES
PARALLEL = {
    label: case for label, case in EVERY.items() if problem_type(case[0]).parallel and label != "codesign bayesian"
}
"""What TPE proposes depends on the order in which scores arrive, so that its answer may depend on the workers."""

INFEASIBLE = {
    "plan": ("plan", "transformer.yaml", TRAINED | {"on": "chip.yaml"}),
    "predict": ("predict", "transformer.yaml", TRAINED | {"on": "chip.yaml", "plan": WHOLE}),
    "serve": ("serve", "transformer.yaml", SERVED | {"tpot": 1e-5}),
    "serve in too little memory": ("serve", "transformer.yaml", SERVED | {"on": "chip.yaml"}),
    "serve at too high a rate": ("serve", "transformer.yaml", SERVED_AT_RATE | {"rate": 1e5}),
    "codesign": ("codesign", "model.yaml", FEW | {"hbm_gb": "0.0001"}),
    "codesign modern": ("codesign", "model.yaml", MODERN | {"hbm_gb": "0.0001"}),
    "place": ("place", "too-small.json", {}),
    "parallel": ("parallel", "step.hlo", {"mesh": "4", "method": "linkage", "memory_gb": 0.005}),
    "parallel pipeline": (
        "parallel",
        "step.hlo",
        {"strategy": "pipeline", "mesh": "4", "stages": 2, "memory_gb": 0.001},
    ),
    "parallel hybrid": ("parallel", "step.hlo", {"strategy": "hybrid", "mesh": "4", "memory_gb": 0.001}),
    "parallel all": ("parallel", "step.hlo", {"strategy": "all", "mesh": "4", "stages": 2, "memory_gb": 0.001}),
    "parallel contest": ("parallel", "no-choices.json", {}),
    "wafer": ("wafer", "crowded.kgraph", {"moves": 100}),
    "fabric": ("fabric", "dataflow.json", {"fabric": "small-fabric.json", "cut": "never"}),
}


def one_io_unit_a_switch(document):
    """The fabric without sites that are as good as others: beside its switch, each has a place of its own."""
    document["grid"]["io_per_switch"]["value"] = 1
    return document


def options_of(files, case):
    name, file, asked = case
    kind = problem_type(name)
    source = str(files / file)
    for key in ("fabric", "on", "batch", "space"):
        if key in asked:
            asked = asked | {key: str(files / asked[key])}
    if "measured" in asked:
        asked = asked | {"measured": (str(files / asked["measured"]),)}
    return kind, kind.Options((source,) if name in ("codesign", "trace") else source, **asked)


ALIKE = (
    *("schedule cp-sat", "schedule scip", "fabric simulator"),
    *(f"partition {method}" for method in PARTITION_METHODS if method not in ("portfolio", "anneal")),
    *(f"wafer {method}" for method in WAFER_METHODS if method != "portfolio"),
)
"""Methods whose results have the entries of another method's, which the same check works out."""
ALTERED = {label: case for label, case in CASES.items() if label not in ALIKE}


@pytest.fixture(scope="module")
def answers(files):
    """Of each case the result of one run in this process, for all laws that compare with it."""

    @cache
    def answer_to(label):
        return conformance.solved(*options_of(files, EVERY[label]))

    return answer_to


@pytest.mark.parametrize("label", EVERY)
def test_the_same_seed_gives_the_same_answer(files, answers, label):
    conformance.same_seed_same_answer(*options_of(files, EVERY[label]), first=answers(label))


@pytest.mark.parametrize("case", PARALLEL.values(), ids=PARALLEL)
def test_workers_change_nothing(files, case, ray_executor):
    conformance.workers_change_nothing(*options_of(files, case), ray_executor)


@pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
def test_a_stop_at_any_moment_leaves_a_legal_answer(files, case):
    conformance.stopped_anywhere_is_legal(*options_of(files, case), moments=(1, 2, 3, 12))


@pytest.mark.parametrize("label", EVERY)
def test_a_killed_run_ends_as_if_it_had_not_been_and_is_shown(files, answers, label, tmp_path):
    kind, options = options_of(files, EVERY[label])
    answered = conformance.killed_and_resumed(kind, options, tmp_path, moments=(2, 9), whole=answers(label))
    conformance.is_shown(kind, options, tmp_path, answered)


@pytest.mark.parametrize("label", ALTERED)
def test_no_altered_entry_passes_the_check(files, answers, label, tmp_path):
    kind, options = options_of(files, ALTERED[label])
    conformance.no_alteration_passes(kind, answers(label), pose(kind, options), tmp_path, count=60)


def test_each_kind_of_entry_is_altered(answers):
    altered = defaultdict(set)
    for label, (name, _, _) in ALTERED.items():
        altered[name] |= kinds(answers(label).model_dump(by_alias=True))
    left = {label: kinds(answers(label).model_dump(by_alias=True)) - altered[EVERY[label][0]] for label in CASES}
    assert {label: entries for label, entries in left.items() if entries} == {}


@pytest.mark.parametrize("case", INFEASIBLE.values(), ids=INFEASIBLE)
def test_what_is_infeasible_is_explained(files, case, tmp_path):
    kind, options = options_of(files, case)
    result = conformance.infeasible_is_explained(kind, options)
    conformance.no_alteration_passes(kind, result, pose(kind, options), tmp_path, count=60)


def test_every_problem_is_here():
    assert {name for name, _, _ in CASES.values()} == {*registered()}
