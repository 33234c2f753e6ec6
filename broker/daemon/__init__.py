"""The daemon: the composition root and what it needs to start, run and stop as a well-behaved service."""
