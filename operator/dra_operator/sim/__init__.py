"""An in-memory API server, for the demo, tests and scale runs."""
