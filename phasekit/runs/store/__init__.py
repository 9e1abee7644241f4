"""Where results are kept: one folder a task, plans, claims, and reading it all back as a table."""
