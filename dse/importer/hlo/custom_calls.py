"""Custom calls that XLA and JAX write themselves: those that say something of an array, and kernels of libraries."""

import re

from dse.graph.step import Attribute
from dse.importer.hlo.module import Instruction

_ANNOTATIONS = frozenset((
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "LayoutConstraint",
    "AssumeGatherIndicesInBound", "xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier",
    "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape",
))  # fmt: skip
"""Targets that compute and move nothing."""

_NUMBERS = re.compile(r'"(lhs|rhs)_(contracting|batch)_dimensions"\s*:\s*\[([^\]]*)\]')


def is_annotation(each: Instruction) -> bool:
    """Whether an instruction says how an array is laid out, and does nothing."""
    return each.opcode == "custom-call" and target_of(each) in _ANNOTATIONS


def target_of(each: Instruction) -> str:
    """What a custom call calls."""
    return each.attributes.get("custom_call_target", "").strip('"')


def product_attributes(backend_config: str) -> dict[str, Attribute]:
    """The dimension numbers of the product that a library's kernel stands for, the first of several."""
    attributes: dict[str, Attribute] = {}
    for side, kind, numbers in _NUMBERS.findall(backend_config):
        dims = tuple(int(number) for number in re.findall(r"\d{1,9}", numbers))
        attributes.setdefault(f"{side}_{kind}_dims", dims)
    return {key: value for key, value in attributes.items() if value}
