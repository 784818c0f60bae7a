"""Do the claims of a report follow from its data? Ours from their bundle (own), the published ones from the
published tables (published)."""
