"""The scheduling problem that a layer poses on one machine: its operators, priced. Shared by search and checker."""

from dse.graph.operator_graph import OperatorGraph
from dse.schedule.problem import ScheduleOperator, ScheduleProblem
from hardware.estimator import estimate
from hardware.machines import Machines
from hardware.network import Network
from hardware.operations import core_kind


def schedule_problem(
    name: str, operators: OperatorGraph, machines: Machines, index: int, network: Network
) -> ScheduleProblem:
    """The scheduling problem of ``operators`` on machine ``index``."""
    one = machines.one(index)
    kinds = [core_kind(operator.operation) for operator in operators]
    latency = estimate([operator.operation for operator in operators], one, network)
    return ScheduleProblem(
        name=name,
        tensor_cores=int(one.tensor_cores[0]),
        vector_cores=int(one.vector_cores[0]),
        operators=tuple(
            ScheduleOperator(operator.name, kind, float(single), float(every))
            for operator, kind, single, every in zip(
                operators, kinds, latency.single_s[:, 0], latency.all_cores_s[:, 0], strict=True
            )
        ),
        edges=operators.edges,
    )
