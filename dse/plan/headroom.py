"""Memory of a device that tensors of a step cannot have: a plan fits if there is room for it too.

Its parts, each from a source (``headroom.yaml``):

- ``context``: what driver and firmware withhold, and the context of a process;
- ``buffers``: those of collectives that the stack does not count. A ring of a communicator has some, and an all-to-all
  joins every pair of ranks: a rank keeps buffers for each of its peers in its node, and one pool for all others. Where
  tokens are sent once to a node (DeepEP), they are sized by tokens instead;
- ``allocator``: gaps between tensors that come and go, as a share of activations and working memory. A stack with
  ``reserved`` has it among its own parts.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dse.plan.stack import Stack
from hardware.chips import Chip
from hardware.documents import read_document
from hardware.input_files import noting
from hardware.inputs import validate
from hardware.spec_fields import NonNegative, Source, StrictModel
from hardware.units import GIB

FILE = "headroom.yaml"

PARTS = ("context", "buffers", "allocator")
"""Parts of memory that are headroom."""

Runtime = Literal["cuda", "rocm", "xla", "other"]


class _Amount(StrictModel):
    """A number that may be nothing, and where it comes from."""

    value: Annotated[NonNegative, Field(le=2**40)]
    source: Source


class _Runtime(StrictModel):
    """The software beneath a framework: bytes of a context, of the buffers of a communicator, of those for a peer."""

    context_gib: _Amount
    communicator_bytes: _Amount
    peer_bytes: _Amount
    max_peers: _Amount
    allocator: _Amount


class _WithheldMemory(StrictModel):
    """What a program is not given of the memory that a data sheet states."""

    runtime: Runtime
    withheld_gib: Annotated[NonNegative, Field(le=1024)]
    source: Source


class _DispatchBuffers(StrictModel):
    """Tokens that buffers hold for a rank of the node and for a node, and bytes of an element and beside a token."""

    near_tokens: _Amount
    far_tokens: _Amount
    element_bytes: _Amount
    token_bytes: _Amount


class _Facts(StrictModel):
    """The content of ``headroom.yaml``."""

    runtimes: dict[Runtime, _Runtime]
    chips: dict[str, _WithheldMemory]
    dispatch: _DispatchBuffers


@dataclass(frozen=True)
class Headroom:
    """Of plans on one accelerator with one stack.

    Attributes:
        context_bytes: withheld, and the context.
        communicator_bytes: of each group of several ranks; 0 where the stack counts its own.
        peer_bytes: of an exchange with experts, for each other rank of the node.
        max_peers: ranks of a node that have such buffers, beside the rank itself.
        node_bytes: of such an exchange, for each node; 0 where all share one pool.
        node_ranks: accelerators of a node.
        allocator: share of activations and working memory.
    """

    context_bytes: float
    communicator_bytes: float
    peer_bytes: float
    max_peers: int
    node_bytes: float
    node_ranks: int
    allocator: float

    def buffers(self, communicators: NDArray[np.int64], expert: NDArray[np.int64]) -> NDArray[np.float64]:
        """Bytes of buffers, of plans with so many groups of ranks, and ranks that share the experts out; [P]."""
        near = np.minimum(expert, self.node_ranks)
        nodes = np.where(expert > self.node_ranks, -(-expert // self.node_ranks), 0)
        peers = np.minimum(near - 1, self.max_peers)
        sizes: NDArray[np.float64] = (
            self.communicator_bytes * communicators + self.peer_bytes * peers + self.node_bytes * nodes
        )
        return sizes


def is_known(chip: Chip) -> bool:
    """Whether sources say what a chip withholds."""
    return chip.name in _facts().chips


@cache
def _facts() -> _Facts:
    with noting(), resources.as_file(resources.files("dse.plan").joinpath(FILE)) as path:
        return validate(_Facts, read_document(path), FILE)


def headroom(chip: Chip, stack: Stack, hidden: int, node_ranks: int) -> Headroom:
    """What plans need room for on a chip.

    Args:
        chip: by its name; of one that nothing is known of, nothing is withheld.
        stack: the software.
        hidden: width of the model.
        node_ranks: accelerators of a node.
    """
    facts = _facts()
    own = facts.chips.get(chip.name)
    below = facts.runtimes[own.runtime if own is not None else "other"]
    peer_bytes, max_peers, node_bytes = below.peer_bytes.value, below.max_peers.value, 0.0
    if stack.deduplicates_tokens.value:
        token_bytes = facts.dispatch.element_bytes.value * hidden + facts.dispatch.token_bytes.value
        peer_bytes, max_peers = facts.dispatch.near_tokens.value * token_bytes, node_ranks - 1
        node_bytes = facts.dispatch.far_tokens.value * token_bytes
    return Headroom(
        context_bytes=round(((own.withheld_gib if own is not None else 0.0) + below.context_gib.value) * GIB),
        communicator_bytes=0.0 if stack.communicator_bytes.value else below.communicator_bytes.value,
        peer_bytes=peer_bytes,
        max_peers=int(max_peers),
        node_bytes=node_bytes,
        node_ranks=node_ranks,
        allocator=0.0 if stack.reserved is not None else below.allocator.value,
    )
