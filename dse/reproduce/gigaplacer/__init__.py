"""GigaPlacer (ASP-DAC 2021): its tables and figures next to ours."""

SUMMARY = "Wafer-scale placement: the twenty cases of the ISPD 2020 contest (GigaPlacer, ASP-DAC 2021)."
