"""The agent's client: what may be asked on agent.sock, one method per verb, each answer as the daemon spelled it.

Every method returns the parsed answer, refusals included, and raises NotRunning or Broken where there is none; after
a Broken with `sent` set it is not known what became of the request. Importing this module must cost next to nothing.
"""

from broker.client.faults import Broken
from broker.client.transport import ANSWER_S, Connection

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from broker.client.framed import Heard
    from broker.client.places import Places
    from broker.contract.wire import JsonValue

WAIT_S = 150.0  # for a human, as the daemon does where nothing is said
ACTION_S = 630.0  # connecting, sending and reading upstream, with room: the daemon ends it earlier
NOTHING = 404
ONE_SHOT = "doorward-cli"  # the daemon then refuses not to wait where nobody could fetch the result later


class AgentClient:
    """Talks to one daemon; keeps the connection open between calls. Not for use by two threads at once."""

    def __init__(self, places: "Places", *, one_shot: bool = False) -> None:
        """`one_shot` says that this process ends with its first answer."""
        self._path = places.agent_socket
        self._user_agent = ONE_SHOT if one_shot else ""
        self._connection: Connection | None = None
        self.spelled = b""  # the last answer byte for byte, for who hands it on as it came

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def http(self, request: "Mapping[str, JsonValue]") -> "dict[str, JsonValue]":
        """Perform a request; the envelope. Waits for the human as long as the request says."""
        return self._ask("POST", "/v1/http", request, answer_s=_patience(request))

    def http_stream(
        self, request: "Mapping[str, JsonValue]", heard: "Heard", content: bytes | None = None
    ) -> "dict[str, JsonValue]":
        """Perform a request; the envelope. `heard` is handed the body of a success while it comes.

        `content` is the request's body where it is too large for a document.
        """
        if content is None:
            return self._hear("/v1/http/stream", request, heard, is_plain=True)
        from broker.contract.frames import MEDIA  # noqa: PLC0415 - for uploads alone

        body = _in_frames(request, content)
        return self._heard("/v1/http/stream", body, request, heard, (("Content-Type", MEDIA),), is_plain=True)

    def collect(self, request: "Mapping[str, JsonValue]") -> "dict[str, JsonValue]":
        """Walk a declared list to its end; the envelope, with one list of all rows."""
        return self._ask("POST", "/v1/collect", request, answer_s=_patience(request))

    def ssh(self, request: "Mapping[str, JsonValue]", heard: "Heard | None" = None) -> "dict[str, JsonValue]":
        """Run a command; the envelope. `heard` is handed the output while it comes."""
        if heard is None:
            return self._ask("POST", "/v1/ssh", request, answer_s=_patience(request))
        return self._hear("/v1/ssh/stream", request, heard)

    def ssh_get(self, request: "Mapping[str, JsonValue]", heard: "Heard") -> "dict[str, JsonValue]":
        """Get a file, which `heard` is handed in pieces once it is read whole; the envelope, without it."""
        return self._hear("/v1/ssh/get", request, heard)

    def ssh_put(self, request: "Mapping[str, JsonValue]", content: bytes) -> "dict[str, JsonValue]":
        """Put a file; the envelope."""
        from broker.contract.frames import MEDIA  # noqa: PLC0415 - for files alone

        body = _in_frames(request, content)
        connection = self._connected()
        extra = (("Content-Type", MEDIA),)
        status, headers = connection.opened("/v1/ssh/put", body, _patience(request), extra)
        return self._read(status, connection.body(headers))

    def explain(self, request: "Mapping[str, JsonValue]", *, action: str = "http") -> "dict[str, JsonValue]":
        """What would become of the request now; nothing is sent."""
        return self._ask("POST", "/v1/explain", {"action": action, "request": dict(request)})

    def services(self) -> "dict[str, JsonValue]":
        return self._ask("GET", "/v1/services")

    def session(
        self, *, label: str | None = None, tree: bool = False, ancestor_pid: int | None = None, start: bool = False
    ) -> "dict[str, JsonValue]":
        """Who the daemon thinks is asking. With `start` the session is opened now instead of by the first action."""
        if not start:
            return self._ask("GET", "/v1/session")
        body: dict[str, JsonValue] = {}
        if label is not None:
            body["label"] = label
        if tree:
            body["tree"] = True
        if ancestor_pid is not None:
            body["ancestor_pid"] = ancestor_pid
        return self._ask("POST", "/v1/session", body)

    def result(self, correlation_id: str, *, wait_s: float = 0) -> "dict[str, JsonValue]":
        """The recorded result of an earlier request of this agent."""
        wait = f"?wait_s={wait_s:g}" if wait_s else ""
        return self._ask("GET", f"/v1/results/{_segment(correlation_id)}{wait}", answer_s=ANSWER_S + wait_s)

    def withdraw(self, correlation_id: str) -> "dict[str, JsonValue]":
        """Take a waiting request back; after it was sent the answer says that this can't be done."""
        return self._ask("DELETE", f"/v1/results/{_segment(correlation_id)}")

    def request_credential(self, request: "Mapping[str, JsonValue]") -> "dict[str, JsonValue]":
        """Have a human asked for the credential of a service; the answer tells whether it is there."""
        return self._ask("POST", "/v1/credential-requests", request, answer_s=_patience(request))

    def reconcile(self, correlation_id: str, *, wait_s: float = WAIT_S) -> "dict[str, JsonValue]":
        """Ask for the declared read-back of a change whose outcome is unknown. It may need a human's yes."""
        body: dict[str, JsonValue] = {"correlation_id": correlation_id, "wait_s": wait_s}
        return self._ask("POST", "/v1/reconcile", body, answer_s=ACTION_S + wait_s)

    def health(self) -> "dict[str, JsonValue]":
        return self._ask("GET", "/v1/health")

    def _hear(
        self, target: str, request: "Mapping[str, JsonValue]", heard: "Heard", *, is_plain: bool = False
    ) -> "dict[str, JsonValue]":
        from broker.contract.frames import MEDIA  # noqa: PLC0415 - for output in frames alone
        from broker.contract.wire import dump  # noqa: PLC0415 - json is for who asks

        return self._heard(target, dump(request), request, heard, (("Accept", MEDIA),), is_plain=is_plain)

    def _heard(
        self,
        target: str,
        body: bytes,
        request: "Mapping[str, JsonValue]",
        heard: "Heard",
        extra: tuple[tuple[str, str], ...],
        *,
        is_plain: bool,
    ) -> "dict[str, JsonValue]":
        from broker.client.framed import envelope_of, is_framed  # noqa: PLC0415 - for output in frames alone

        connection = self._connected()
        status, headers = connection.opened(target, body, _patience(request), extra)
        if is_framed(headers):
            return self._read(status, envelope_of(connection, heard, is_plain=is_plain))
        return self._read(status, connection.body(headers))

    def _connected(self) -> Connection:
        if self._connection is None or not self._connection.alive():
            self._connection = Connection(self._path, user_agent=self._user_agent)
        return self._connection

    def _ask(
        self, method: str, target: str, body: "Mapping[str, JsonValue] | None" = None, *, answer_s: float = ANSWER_S
    ) -> "dict[str, JsonValue]":
        from broker.contract.wire import WireError, dump  # noqa: PLC0415 - json is for who asks

        connection = self._connected()
        try:
            octets = None if body is None else dump(body)
        except WireError as cause:
            raise Broken(f"the request can't be sent: {cause}") from cause
        answer = connection.request(method, target, octets, answer_s=answer_s)
        return self._read(answer.status, answer.body)

    def _read(self, status: int, body: bytes) -> "dict[str, JsonValue]":
        from broker.contract.wire import WireError, parse_object  # noqa: PLC0415 - json is for who asks

        self.spelled = body
        try:
            value = parse_object(body, max_bytes=len(body))
        except WireError as cause:
            raise Broken(f"the daemon's answer ({status}) is not usable: {cause}", sent=True) from cause
        if status == NOTHING and "category" not in value:
            raise Broken("the daemon does not know this verb: it is of another version than this client")
        return value


def _in_frames(request: "Mapping[str, JsonValue]", content: bytes) -> bytes:
    from broker.client.framed import UPLOAD_FRAME_BYTES  # noqa: PLC0415 - for files alone
    from broker.contract.frames import DATA, HEAD, pack  # noqa: PLC0415 - likewise
    from broker.contract.wire import dump  # noqa: PLC0415 - json is for who asks

    pieces = (content[start : start + UPLOAD_FRAME_BYTES] for start in range(0, len(content), UPLOAD_FRAME_BYTES))
    return b"".join([pack(HEAD, dump(request)), *(pack(DATA, piece) for piece in pieces)])


def _patience(request: "Mapping[str, JsonValue]") -> float:
    """How long an answer may take: the human's time, the action's, and some for the way."""
    deadline = request.get("deadline")
    action_s = _seconds(deadline.get("total_s"), ACTION_S) if isinstance(deadline, dict) else ACTION_S
    return _seconds(request.get("wait_s"), WAIT_S) + max(action_s, ACTION_S) + ANSWER_S


def _seconds(value: "JsonValue", otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) else otherwise


def _segment(text: str) -> str:
    """One path segment; ids hold nothing that needs escaping, anything else never leaves this process."""
    if not text.isascii() or not text.replace("_", "").replace("-", "").isalnum():
        raise ValueError("this is no id")
    return text
