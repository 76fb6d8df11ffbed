"""Elementwise functions of a trace on the tape: which vector operation each is, and what its backward needs."""

from collections.abc import Mapping

from dse.graph import differentiable as nn
from dse.graph import tensor_operators as tensors

PASS_THROUGH = tensors.Elementwise("add", None, keeps_operands=False)
PRODUCT = tensors.Elementwise("multiply", "multiply", keeps_operands=True)
CHOICE = tensors.Elementwise("select", "select", keeps_operands=False)

NONLINEARITIES: Mapping[str, nn.Nonlinearity] = {
    "relu": "relu",
    "clamp": "relu",
    "abs": "relu",
    "gelu": "gelu",
    "silu": "silu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "sqrt": "sqrt",
    "rsqrt": "sqrt",
    "exp": "power",
    "log": "power",
    "erf": "power",
    "sin": "power",
    "cos": "power",
}

RULES: Mapping[str, tensors.Elementwise] = {
    "add": PASS_THROUGH,
    "subtract": PASS_THROUGH,
    "multiply": PRODUCT,
    "divide": tensors.Elementwise("divide", "divide_backward", keeps_operands=True),
    "power": tensors.Elementwise("power", "power_backward", keeps_operands=True),
    "maximum": CHOICE,
    "minimum": CHOICE,
    "compare": CHOICE,
    "select": CHOICE,
    "mask": CHOICE,
}
