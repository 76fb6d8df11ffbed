"""Plans as programs that a framework runs: ``plan_jax.py``."""
