"""What partitions are priced by: the reference evaluator and the simulator."""
