"""SSH as values: hosts, frozen commands, what an executor saw, markers. Pure; the wire is executors/ssh's."""
