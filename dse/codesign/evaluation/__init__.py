"""What an architecture is worth for each job: bounds, exact schedules and placements, energy."""
