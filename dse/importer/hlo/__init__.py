"""Training steps in XLA's HLO: text as XLA and JAX write it, before and after optimisation, to a step graph."""
