"""Pages, tables and traces: what every report is made of."""
