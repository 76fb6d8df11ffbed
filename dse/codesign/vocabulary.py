"""What a proof that nothing fits is a proof of: the plans that are searched, and those that are not."""

from dse.codesign.problem import TrainingJob
from dse.graph.operator_graph import Layer, ModelGraph, Operator
from hardware.operations import Fused, Gemm


def plan_vocabulary(job: TrainingJob) -> str:
    """One sentence: which plans were ruled out, and which were not looked at."""
    state = job.cost_model.state_factor
    return (
        "Every pipeline × data × tensor plan is ruled out, with stored or recomputed activations and "
        f"{state:g} bytes of weights, gradients and optimizer state per byte of weights on every replica; plans that "
        "shard optimizer state, offload or split sequences are not searched."
    )


def missing_parallelism(graph: ModelGraph) -> str | None:
    """What else a model would need than the plans offer; None where nothing is known to be missing.

    ``graph`` is that of the least tensor width: wider ones divide all weights but the experts'.
    """
    total = sum(layer.weight_bytes + layer.frozen_bytes for layer in graph.layers)
    parameters = sum(layer.parameters + layer.frozen_parameters for layer in graph.layers)
    experts = sum(map(expert_parameters, graph.layers))
    if not experts or not total:
        return None
    return (
        f"Experts hold {100 * experts / parameters:.0f} % of its weights and are not sharded across accelerators, "
        "because these plans have no expert parallelism."
    )


def expert_parameters(layer: Layer) -> int:
    """Weights of a layer in products with a weight matrix for each of several experts (``grouped_mm``, ``bmm``)."""
    return sum(part.weights for operator in layer.forward for part in _parts(operator) if _is_of_experts(part))


def _parts(operator: Operator) -> tuple[Operator, ...]:
    return operator.members or (operator,)


def _is_of_experts(operator: Operator) -> bool:
    operation = operator.operation
    product = operation.tensor if isinstance(operation, Fused) else operation
    return isinstance(product, Gemm) and product.batch > 1 and operator.weights >= product.batch
