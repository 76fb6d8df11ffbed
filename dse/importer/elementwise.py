"""Elementwise functions of a trace on the tape: which vector operation each is, and what its backward needs."""

from collections.abc import Mapping

from dse.graph import differentiable as nn
from dse.graph.tensor_operators import CHOICE, PASS_THROUGH, PRODUCT, QUOTIENT, Elementwise

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

RULES: Mapping[str, Elementwise] = {
    "add": PASS_THROUGH,
    "subtract": PASS_THROUGH,
    "multiply": PRODUCT,
    "divide": QUOTIENT,
    "power": Elementwise("power", "power_backward", keeps_operands=True),
    "maximum": CHOICE,
    "minimum": CHOICE,
    "compare": CHOICE,
    "select": CHOICE,
    "mask": CHOICE,
}
