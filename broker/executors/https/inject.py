"""The last step before the wire: the credential's header. Called once per attempt, on a connection that is up.

Whatever stands in the request under the same name gives way. No other part of the executor reveals a secret.
"""

from multidict import CIMultiDict

from broker.core.credential import HttpSecret, header_for
from broker.executors.https.faults import ExecutorError


def inject(headers: CIMultiDict[str], secret: HttpSecret) -> None:
    name, value = header_for(secret)
    headers.popall(name, None)
    try:
        headers[name] = value.reveal().decode("ascii")
    except UnicodeDecodeError:  # its text would repeat the value
        raise ExecutorError(f"the credential's value can't stand in the header {name}") from None
