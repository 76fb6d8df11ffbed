"""HiGHS in a process of its own, as it cannot be interrupted.

Given: a model, parameters and model parameters of MathOpt, each behind its length. Written: the result, or nothing
where HiGHS fails.
"""

from io import BytesIO
from typing import BinaryIO

from ortools.math_opt import callback_pb2, model_parameters_pb2, model_pb2, parameters_pb2, result_pb2
from ortools.math_opt.core.python import solver
from ortools.math_opt.python import init_arguments
from pybind11_abseil.status import StatusNotOk

from dse.run.child import serve

LENGTH_BYTES = 8
"""Of the length before each message: unsigned, little-endian."""


def solve(
    model: model_pb2.ModelProto,
    parameters: parameters_pb2.SolveParametersProto,
    model_parameters: model_parameters_pb2.ModelSolveParametersProto,
) -> result_pb2.SolveResultProto | None:
    """MathOpt's result; None where HiGHS fails, as it may by rounding errors."""
    try:
        result: result_pb2.SolveResultProto = solver.solve(
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


def answer(given: bytes, out: BinaryIO) -> None:
    """Solve what is given."""
    messages = (
        model_pb2.ModelProto(),
        parameters_pb2.SolveParametersProto(),
        model_parameters_pb2.ModelSolveParametersProto(),
    )
    with BytesIO(given) as stream:
        for message in messages:
            message.ParseFromString(stream.read(int.from_bytes(stream.read(LENGTH_BYTES), "little")))
    result = solve(*messages)
    if result is not None:
        out.write(result.SerializeToString())


if __name__ == "__main__":
    serve(answer)
