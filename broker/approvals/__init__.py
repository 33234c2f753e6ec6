"""Approvals on the edge: the desk that waits for humans, and how its answers are checked."""
