"""The schedulers: event search, CP-SAT and the ILP of the paper."""
