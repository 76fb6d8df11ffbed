"""Which architectures are looked at, and in which order: the exhaustive search with its proof, and the heuristics."""
