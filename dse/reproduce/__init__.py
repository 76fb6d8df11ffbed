"""A paper's tables and figures from fresh runs, printed next to the numbers that it published."""
