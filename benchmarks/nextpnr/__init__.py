"""What ``benchmarks.fabric_nextpnr`` needs: generated designs, their placements, and models of their clock rates."""
