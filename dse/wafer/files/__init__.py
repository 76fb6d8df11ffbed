"""The formats of the contest, drawings, and what a run directory holds."""
