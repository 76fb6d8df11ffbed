"""ATen operators of a traced training step as operations of a step graph, with HLO's opcodes and attributes."""
