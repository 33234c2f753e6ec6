"""The desktop of the human: notices of waiting cards, and the moments at which it locks or sleeps.

Speaks to the session bus and to the system bus; whatever is absent, hung or dead there, the daemon goes on. What comes
from a bus can only take away: a notice denies or shows a card, a signal locks. Nothing here can approve anything.
"""
