"""Calculon's prediction of a training run, for the runs that it can express (Isaev et al., SC 2023).

Calculon (github.com/calculon-ai/calculon) is not part of this repository: a checkout of it is run by the command that
its README gives, ``bin/calculon llm MODEL.json EXECUTION.json SYSTEM.json STATS.json``, with the system files that it
comes with. It knows decoders of plain feed-forward networks and as many heads of keys as of queries, attention that
keeps its scores, tensor, pipeline and data parallelism, and products of 16 bits on A100 and H100; of the table those
are Megatron-LM's runs of 2021 and 2022. What it has no words for at all: embedding, output matrix and loss, and
gradients that travel in other precisions than weights.

``CHECKED`` names the version that the adapter was run with. Its import needs pandas and psutil.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dse.plan.export.expressible import is_ordered_as
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import AS_STACK, SETTINGS, USUAL_ORDER, TrainingPlan

CHECKED = "calculon-ai/calculon, the newest of each file: calculon/llm/llm.py of commit c02c5e9, layers.py of caa4b11"
"""The version whose own validation (``bin/calculon llm-validation``: 3.65 % over 8 runs) came out as published."""

SYSTEMS = {"a100-sxm": "a100_80g", "h100-sxm": "h100_80g_nvl8"}
"""Its system files by our names of chips."""

NODE = 8
"""Accelerators that the first network of these systems joins."""

_RECOMPUTE = {"none": "none", "selective": "attn_only", "full": "full"}
_EXPRESSED = ("precision", "overlap_tensor")
"""Settings that it has words for."""
_TIME_LIMIT_S = 300


class Prediction(NamedTuple):
    """What Calculon says: seconds of a step and bytes of a processor; its own words where it refuses the run."""

    step_s: float | None
    memory_bytes: float | None
    refusal: str = ""


def is_checkout(path: Path) -> bool:
    """Whether its command is there."""
    return (path / "bin" / "calculon").is_file()


def can_express(problem: PlanProblem, plan: TrainingPlan) -> bool:
    """Whether it has words for a plan on this machine and stack."""
    model = problem.model
    is_plain = model.experts is None and model.latent is None and not model.gated and model.head == "causal_lm"
    stages = plan.pipeline * plan.interleave
    return (
        is_plain
        and model.window is None
        and problem.stack.attention.value == "unfused"
        and model.key_heads == model.heads
        and model.key_width == model.context_width
        and problem.system.chip.name in SYSTEMS
        and plan.precision in ("fp16", "bf16")
        and plan.context == 1
        and is_ordered_as(plan, USUAL_ORDER)
        and all(getattr(plan, key) == AS_STACK for key in SETTINGS if key not in _EXPRESSED)
        and plan.zero < 2
        and plan.zero_copies == 1
        and plan.schedule == "1f1b"
        and plan.recompute in _RECOMPUTE
        and model.layers % stages == 0
        and not plan.first_layers
        and not plan.last_layers
    )


def application(problem: PlanProblem) -> dict[str, Any]:
    """Its application file."""
    model = problem.model
    return {
        "name": model.name,
        "hidden": model.hidden,
        "feedforward": model.feed_forward,
        "seq_size": problem.sequence,
        "attn_heads": model.heads,
        "attn_size": model.key_width,
        "num_blocks": model.layers,
    }


def execution(problem: PlanProblem, plan: TrainingPlan) -> dict[str, Any]:
    """Its execution file."""
    software = problem.software
    far = int(problem.devices > NODE)
    cut = plan.sequence_parallel
    # Between stages without sequence parallelism each rank sends its part, and a node gathers it (p2p_rs_ag).
    whole = "p2p_rs_ag" if plan.tensor > 1 and plan.pipeline > 1 else "ar"
    return {
        "num_procs": problem.devices,
        "tensor_par": plan.tensor,
        "pipeline_par": plan.pipeline,
        "data_par": plan.data,
        "tensor_par_net": int(plan.tensor > NODE),
        "pipeline_par_net": far if plan.pipeline > 1 else 0,
        "data_par_net": far if plan.data > 1 else 0,
        "batch_size": problem.global_batch,
        "microbatch_size": plan.microbatch,
        "datatype": "float16",
        "fused_activation": False,
        "attention_type": "multihead",
        "activation_recompute": _RECOMPUTE[plan.recompute],
        "pipeline_interleaving": plan.interleave,
        "optimizer_sharding": plan.zero > 0 and plan.data > 1,
        "tensor_par_comm_type": "rs_ag" if cut else whole,
        "tensor_par_overlap": "ring" if software.overlaps_tensor and plan.tensor > 1 else "none",
        "seq_par_ag_redo": cut and plan.recompute != "full",
        "data_par_overlap": software.overlaps_gradients and plan.data > 1,
        "weight_offload": False,
        "activations_offload": False,
        "optimizer_offload": False,
        "training": True,
    }


def predicted(checkout: Path, problem: PlanProblem, plan: TrainingPlan) -> Prediction:
    """What a checkout says of a plan that it can express.

    Raises:
        RuntimeError: it ended without figures and without a refusal.
    """
    with tempfile.TemporaryDirectory(prefix="calculon") as folder:
        named = {"application": application(problem), "execution": execution(problem, plan)}
        files = [_written(Path(folder, f"{name}.json"), document) for name, document in named.items()]
        system = checkout / "systems" / f"{SYSTEMS[problem.system.chip.name]}.json"
        stats = Path(folder, "stats.json")
        ended = subprocess.run(
            [sys.executable, str(checkout / "bin" / "calculon"), "llm", *files, str(system), str(stats)],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            text=True,
            timeout=_TIME_LIMIT_S,
        )
        refusal = next((line for line in ended.stdout.splitlines() if line.startswith("ERROR:")), "")
        if refusal:
            return Prediction(None, None, refusal)
        if not stats.exists():
            lines = (ended.stderr or ended.stdout).splitlines()
            raise RuntimeError(f"{checkout}: no figures: {lines[-1] if lines else 'no output'}")
        figures = json.loads(stats.read_text(encoding="utf-8"))
    return Prediction(float(figures["total_time"]), float(figures["proc_mem_tier1_cap_req"]))


def _written(path: Path, document: Mapping[str, Any]) -> str:
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)
