"""PyTorch modules, traced: a module runs once on shapes alone, without weights.

*Recognised.* Casts and views disappear. Norms, rotary embeddings and GELUs that are written in steps are recognised by
what they compute, repeated layers by their structure. An operator without a known cost counts as a pass over its
operands and is named.

*Slices* follow Megatron-LM: products whose results meet in another product are cut by columns, those by rows,
embeddings and logits by vocabulary.

*Frozen parameters* (without gradient) are in memory once with 16 bits, without optimizer state; model FLOPs are then
those that training needs.

*Windowed attention* counts as full, and its scores are kept; where nothing fits for that reason, the answer says so.

The trace is cached until the file, its imports or a version changes.
"""
