"""The failure matrix: cases, far sides that fail as told, agents that act by the contract, and what all is held to.

Stands beside the daemon and starts it as a process; it imports the client and the contract, and nothing that decides.
"""
