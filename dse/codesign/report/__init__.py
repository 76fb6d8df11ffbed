"""What people see of a co-search: rows, sentences, charts, report.html and traces."""
