"""The version of this program, spelled here and in pyproject.toml; a test holds the two together.

Asking the installed package for it would cost the daemon's start 20 ms.
"""

VERSION = "0.1.0"
