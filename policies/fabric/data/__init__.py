"""Labelled placements to learn from: how they are drawn, simulated and kept."""
