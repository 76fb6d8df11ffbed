"""Plans as programs that a framework runs: ``plan_jax.py``, ``plan_torch.py``, ``training_plan.yaml``.

``plan_jax.py`` constrains arguments and, by JAX's labels, the results of products, lookups and reductions; where the
plan reshards, of all operations, since propagation alone could split other dimensions.

``plan_torch.py`` has placements of parameters and inputs, and layouts of modules. On one axis, modules use
ColwiseParallel, RowwiseParallel or SequenceParallel where these are the plan; parameters that are split along the
batch's axis and gathered go to ``fully_shard``, a group per module. DTensor gathers what is gathered along two axes,
whole inputs, the outermost module, and what modules share. Moments have their parameter's layout; where the plan splits
them further, the parameter is held as they are and gathered once per step. Buffers are whole. Convolutions, pooling,
batch and group normalisation, recurrent layers and attention modules run on plain tensors, and elementwise losses are
averaged over ranks, as DTensor gives other values or none there.

``training_plan.yaml`` exists where each axis is of replicas (splits the first dimension of inputs only), tokens (the
second) or tensors (no input, over half the bytes of trained matrices), in this order. ZeRO is 3 where replicas split
most bytes of trained matrices, 1 where they split state alone. A pipeline has it where stages have equally many
devices; cuts are not in it.
"""
