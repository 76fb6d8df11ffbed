"""What is learned: networks, environments and cost models with weights. ``dse`` never imports this floor.

Empty until the first learned method arrives (the multi-chip partitioner).
"""
