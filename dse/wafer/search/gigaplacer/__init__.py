"""GigaPlacer as its paper prints it (Li et al., ASP-DAC 2021): rows of kernels, found by binary search on the time."""
