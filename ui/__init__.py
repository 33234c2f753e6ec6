"""The terminal interface: what waits for a human, what a yes would cover, and the answer, signed in this process.

Draws on stderr; nothing else may write there. Sees the daemon through `broker.client` alone and decides nothing itself.
"""
