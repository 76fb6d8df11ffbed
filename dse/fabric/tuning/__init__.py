"""Tuning of the rules' weights and of the annealing schedule, judged by the simulator on training graphs."""
