"""The fusion of the published tool, on every node of a layer.

A product takes in its only consumer where that is elementwise, a normalisation, a dropout or a change of shape;
elementwise work its only consumer where that is elementwise, a sum or a dropout. The consumer must read no other node
of the layer; what it reads from other layers is not seen. So a residual addition is fused where the residual is the
input of the layer.
"""

from dataclasses import dataclass, field

from dse.models.traced.trace import INJECTIVE, PRODUCTS, Node, NodeKind

_AFTER_PRODUCT: frozenset[NodeKind] = INJECTIVE | {"tanh", "relu", "layer_norm", "dropout", "fill", "view"}
_AFTER_INJECTIVE: frozenset[NodeKind] = INJECTIVE | {"sum", "dropout"}


@dataclass(eq=False)
class FusedNode:
    """A node and those that it took in, with the nodes before and behind it by position."""

    node: Node
    taken_in: list[Node] = field(default_factory=list)
    before: set[int] = field(default_factory=set)
    behind: set[int] = field(default_factory=set)


def fused(nodes: list[Node]) -> dict[int, FusedNode]:
    """The nodes that are left, by position; edges lead to higher positions."""
    left = {position: FusedNode(node, before=set(node.inputs)) for position, node in enumerate(nodes)}
    for position, each in left.items():
        for source in each.before:
            left[source].behind.add(position)
    for position in range(len(nodes)):
        while position in left and _takes_in(left, position):
            pass
    return left


def _takes_in(left: dict[int, FusedNode], position: int) -> bool:
    """Fuse a node with its only consumer, if the rule lets it."""
    each = left[position]
    kinds = _AFTER_PRODUCT if each.node.kind in PRODUCTS else _AFTER_INJECTIVE
    if each.node.kind not in PRODUCTS | INJECTIVE or len(each.behind) != 1:
        return False
    (number,) = each.behind
    consumer = left[number]
    if consumer.node.kind not in kinds or consumer.before != {position}:
        return False
    each.taken_in += [consumer.node, *consumer.taken_in]
    each.behind = consumer.behind
    for behind in consumer.behind:
        left[behind].before.remove(number)
        left[behind].before.add(position)
    del left[number]
    return True
