"""A paper's tables and figures from fresh runs, printed beside the numbers that it published."""
