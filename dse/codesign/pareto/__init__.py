"""The front of score, area and power, complete and proven."""
