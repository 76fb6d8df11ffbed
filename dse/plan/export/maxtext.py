"""Settings of MaxText: what a plan decides, to be given beside a model's own file."""

import yaml

from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan

_REMAT = {"none": "minimal", "selective": "save_qkv_proj", "full": "full"}
"""The closest policies: MaxText's ``minimal`` keeps what matrix products give."""

_QUANTIZATION = {"bf16": "", "int8": "int8", "fp8": "fp8"}


def maxtext_settings(problem: PlanProblem, plan: TrainingPlan) -> str | None:
    """The YAML text; None for what MaxText lacks.

    That is ZeRO 1 and 2, GPipe, stages of unequal layers, recomputation of some layers, experts spread over other axes,
    and other precisions than bf16, fp8 and int8.
    """
    stages = plan.pipeline * plan.interleave
    if plan.zero in (1, 2) or plan.schedule == "gpipe" or plan.expert > 1 or plan.precision not in _QUANTIZATION:
        return None
    if problem.model.layers % stages or plan.recompute not in _REMAT:
        return None
    rounds = problem.global_batch // (plan.data * plan.microbatch)
    settings: dict[str, object] = {
        "ici_data_parallelism": 1 if plan.zero else plan.data,
        "ici_fsdp_parallelism": plan.data if plan.zero else 1,
        "ici_context_parallelism": plan.context,
        "ici_tensor_parallelism": 1 if plan.sequence_parallel else plan.tensor,
        "ici_tensor_sequence_parallelism": plan.tensor if plan.sequence_parallel else 1,
        "ici_pipeline_parallelism": plan.pipeline,
        "remat_policy": _REMAT[plan.recompute],
        "quantization": _QUANTIZATION[plan.precision],
        "max_target_length": problem.sequence,
    }
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
