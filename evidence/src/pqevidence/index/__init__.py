"""A folder of bundles as one page and two tables: what each measured, and how equal runs went over time."""
