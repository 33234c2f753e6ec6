"""The client: what the command line, the terminal interface and Python agents use to speak to the daemon.

Standard library only, but for `approver` (key derivation and signing), which no agent's path imports.
Modules are imported one by one; importing this package costs nothing.
"""
