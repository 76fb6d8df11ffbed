"""Settings of MaxText: what a plan decides, to be given together with a model's own file."""

import yaml

from dse.plan.export.expressible import has_equal_stages, is_ordered_as, refuse, refuse_settings
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import USUAL_ORDER, TrainingPlan

_REMAT = {"none": "minimal", "selective": "save_qkv_proj", "full": "full"}
"""The closest policies: MaxText's ``minimal`` keeps what matrix products give."""

_QUANTIZATION = {"bf16": "", "int8": "int8", "fp8": "fp8"}


def maxtext_settings(problem: PlanProblem, plan: TrainingPlan) -> str:
    """The YAML text.

    Raises:
        NotExpressibleError: the plan has what MaxText lacks: ZeRO 1 and 2, GPipe, stages of unequal layers, layers
            without experts in a pipeline, recomputation of some layers, accumulated gradients of 8-bit products, other
            orders of the axes, experts spread over other axes, other precisions than bf16, fp8 and int8, precisions
            of state and overlaps of its own (XLA decides what overlaps), or activations in the host's memory.
    """
    stages = plan.pipeline * plan.interleave
    rounds = problem.global_batch // (plan.data * plan.microbatch)
    _refuse_what_it_lacks(problem, plan, rounds)
    settings: dict[str, object] = {
        "ici_data_parallelism": plan.zero_copies if plan.zero else plan.data,
        "ici_fsdp_parallelism": plan.data // plan.zero_copies if plan.zero else 1,
        "ici_context_parallelism": plan.context,
        "ici_tensor_parallelism": 1 if plan.sequence_parallel else plan.tensor,
        "ici_tensor_sequence_parallelism": plan.tensor if plan.sequence_parallel else 1,
        "ici_pipeline_parallelism": plan.pipeline,
        "remat_policy": _REMAT[plan.recompute],
        "quantization": _QUANTIZATION[plan.precision],
        "max_target_length": problem.sequence,
    }
    if plan.offload == "optimizer":
        settings["optimizer_memory_host_offload"] = True
    if problem.model.prediction_layers:
        settings["mtp_num_layers"] = problem.model.prediction_layers
    if plan.pipeline > 1:
        settings |= {
            "num_layers_per_pipeline_stage": problem.model.layers // stages,
            "num_pipeline_microbatches": rounds,
            "per_device_batch_size": problem.global_batch / problem.devices,
        }
    else:
        settings |= {
            "gradient_accumulation_steps": rounds,
            "per_device_batch_size": problem.global_batch / problem.devices / rounds,
        }
    written: str = yaml.safe_dump(settings, sort_keys=False)
    return written


def _refuse_what_it_lacks(problem: PlanProblem, plan: TrainingPlan, rounds: int) -> None:
    refuse_settings(plan, ("offload",))
    refuse(
        ("activations" in plan.offload, f"offload={plan.offload}, of whose activations its policies keep some"),
        (plan.zero in (1, 2), f"zero={plan.zero}"),
        (plan.zero > 0 and plan.zero_copies == plan.data > 1, f"zero={plan.zero} over only the context axis"),
        (
            plan.zero == 0 and plan.context > 1,
            f"zero=0 with context={plan.context}, because it shards weights over the context axis",
        ),
        (not is_ordered_as(plan, USUAL_ORDER), f"order={plan.order}"),
        (not has_equal_stages(plan), "first_layers and last_layers"),
        (
            plan.pipeline > 1 and problem.model.experts is not None and problem.model.dense_layers > 0,
            f"pipeline={plan.pipeline} with layers without experts, which it keeps outside the pipeline",
        ),
        (plan.schedule != "1f1b", f"schedule={plan.schedule}"),
        (plan.expert > 1, f"expert={plan.expert} over ranks of other axes"),
        (plan.precision not in _QUANTIZATION, f"precision={plan.precision}"),
        (plan.recompute not in _REMAT, f"recompute={plan.recompute}"),
        (
            plan.precision == "fp8" and plan.pipeline == 1 and rounds > 1,
            f"precision=fp8 with gradients accumulated over {rounds} microbatches",
        ),
    )
