"""Co-search over chips by their silicon: node, dies, memory, links, clock and cores, each with its training plans."""
