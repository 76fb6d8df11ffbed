"""Operator and data plans by deep Q-learning (paper, 3.2, 3.3, 4.2 and 4.3)."""
