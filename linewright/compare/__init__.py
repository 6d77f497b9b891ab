"""What changed between two sets of records."""
