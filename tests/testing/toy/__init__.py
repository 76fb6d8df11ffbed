"""A problem package as small as can be: which items go into a knapsack."""

COMMAND = "toy"
SUMMARY = "Pack the most valuable items that a knapsack can carry."
