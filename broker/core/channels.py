"""The channels that a request can take: what is frozen for each, and what its executor saw.

What both have in common can be asked of either; what only one has is asked after a match on its type.
"""

from typing import TypeAlias

from broker.core.frozen import FrozenRequest
from broker.core.outcome import RawOutcome
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.outcome import SshOutcome

Frozen: TypeAlias = FrozenRequest | FrozenSsh
Raw: TypeAlias = RawOutcome | SshOutcome
