"""Records on disk: read, checked, selected and stored."""
