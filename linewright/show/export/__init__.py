"""Results as files that other tools read: one module per format."""
