"""HiGHS in a process of its own, as it cannot be interrupted: a program that knows nothing of ``dse``.

Read from stdin: a model, parameters and model parameters of MathOpt, each behind its length. Written to stdout: the
result, or nothing where HiGHS fails. It ends with the process that has started it, however that ends: that one holds
the other end of the pipe whose number is the argument.
"""

import os
import sys
import threading

from ortools.math_opt import callback_pb2, model_parameters_pb2, model_pb2, parameters_pb2
from ortools.math_opt.core.python import solver
from ortools.math_opt.python import init_arguments
from pybind11_abseil.status import StatusNotOk

LENGTH_BYTES = 8
"""Of the length before each message: unsigned, little-endian."""


def solve(
    model: model_pb2.ModelProto,
    parameters: parameters_pb2.SolveParametersProto,
    model_parameters: model_parameters_pb2.ModelSolveParametersProto,
) -> object | None:
    """MathOpt's result; None where HiGHS fails, as it may by rounding errors."""
    try:
        result: object = solver.solve(
            model,
            parameters_pb2.SOLVER_TYPE_HIGHS,
            init_arguments.StreamableSolverInitArguments().to_proto(),
            parameters,
            model_parameters,
            None,
            callback_pb2.CallbackRegistrationProto(),
            None,
            None,
        )
    except StatusNotOk:
        return None
    return result


def _end_with_parent(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(1)


def main() -> None:
    """Solve what stdin holds."""
    threading.Thread(target=_end_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
    messages = (
        model_pb2.ModelProto(),
        parameters_pb2.SolveParametersProto(),
        model_parameters_pb2.ModelSolveParametersProto(),
    )
    for message in messages:
        length = int.from_bytes(sys.stdin.buffer.read(LENGTH_BYTES), "little")
        message.ParseFromString(sys.stdin.buffer.read(length))
    result = solve(*messages)
    if result is not None:
        sys.stdout.buffer.write(result.SerializeToString())  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
