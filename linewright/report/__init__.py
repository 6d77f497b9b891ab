"""One self-contained HTML page of record files: what was found, charts, context, every number, and the records themselves."""
