"""Training steps in JAX: a user's function, lowered to HLO without devices and without data."""
