"""Models that predict the throughput of a placement, and what they read of it."""
