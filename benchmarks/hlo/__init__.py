"""Training steps in JAX whose HLO the tests and benchmarks read, and the script that writes it."""
