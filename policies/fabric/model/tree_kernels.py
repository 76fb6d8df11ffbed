"""What boosted trees in arrays say of examples, compiled."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from hardware.compiled import compiled

LEAF = -1
"""What stands for the feature of a leaf."""


@compiled
def sum_of_leaves(features, asked, threshold, left, right, value):
    """The sum over all trees of the leaf that each example ends in, [S].

    ``features``: of the examples, [S, F]; ``asked`` and what follows: as of
    :class:`~policies.fabric.model.trees.Trees`, [trees, nodes].
    """
    sums = np.zeros(len(features))
    for example in range(len(features)):
        for tree in range(len(asked)):
            node = 0
            while asked[tree, node] != LEAF:
                is_left = features[example, asked[tree, node]] <= threshold[tree, node]
                node = left[tree, node] if is_left else right[tree, node]
            sums[example] += value[tree, node]
    return sums
