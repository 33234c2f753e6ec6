"""The agent's verbs as tools of the Model Context Protocol: an adapter over broker.client, in a process of its own.

Holds no decision and no secret. Every answer is the daemon's envelope, as structured content and as text; nothing that
goes wrong in here leaves as an exception's words. Whether the peer may do something is the daemon's to say.
"""
