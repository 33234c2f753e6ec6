"""The part of the feed that reads the lists: sessions, credentials, host keys, checkpoints, what the policy says.

Called by the feed's own threads. Each list comes from one or two answers of the daemon and is told as news.
"""

from collections.abc import Callable

from broker.client.approver import ApproverKey
from broker.client.control import ControlClient
from ui import served, served_lists, served_policy
from ui.list_messages import CheckpointsNews, ForgetHostKey, HostKeysNews
from ui.messages import CredentialsNews, EndSession, News, PolicyNews, SessionsNews

CHECKPOINTS_MOST = 10_000
PAGE = 1000


class ListFeed:
    def __init__(self, tell: Callable[[News], object]) -> None:
        self._tell = tell

    def sessions(self, client: ControlClient) -> None:
        listing = client.session_listing()
        self._tell(
            SessionsNews(
                sessions=served.sessions(listing),
                grants=served.grants({"grants": client.grants()}),
                limits=served.session_limits(listing),
            )
        )

    def vault(self, client: ControlClient) -> None:
        """Also what is in force, which names the services that use a credential."""
        self._tell(CredentialsNews(credentials=served.credentials({"credentials": client.credentials()})))
        self._tell(HostKeysNews(keys=served_lists.host_keys({"host_keys": client.host_keys()})))
        self._tell(PolicyNews(facts=served_policy.policy(client.policy(), {"same": True})))

    def checkpoints(self, client: ControlClient) -> None:
        """A page at a time, from the newest back."""
        found: tuple[served_lists.LogCheckpoint, ...] = ()
        before: int | None = None
        while len(found) < CHECKPOINTS_MOST:
            answer = client.audit_checkpoints(before_seq=before, limit=PAGE)
            found = (*found, *served_lists.checkpoints(answer))
            fields = served.Fields(answer)
            before = fields.number_or_none("next_seq")
            if before is None:
                self._tell(CheckpointsNews(checkpoints=found, whole=fields.flag("whole")))
                return
        self._tell(CheckpointsNews(checkpoints=found[:CHECKPOINTS_MOST], whole=False))


def forgotten(client: ControlClient, task: ForgetHostKey, key: ApproverKey) -> str:
    client.forget_host_key(task.address, task.port, key)
    return "the host key is forgotten; the next contact asks again"


def ended(client: ControlClient, task: EndSession) -> str:
    answer = served.Fields(client.revoke_session(task.session_id, kill=task.kill))
    if not task.kill:
        return "the session is ended"
    kill = answer.part("kill")
    if not answer.flag("killed"):
        return "the session is ended; its processes could not be ended"
    left, escape = kill.number("left"), kill.text("escape")
    said = (
        f"the session is ended; of its processes {left} are still there" if left else "ended, and its processes with it"
    )
    return f"{said}. {escape}" if escape else said
