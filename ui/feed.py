"""The feed: two threads between the window and the daemon. One listens to events, one does tasks; neither draws.

The approver key lives here, opened by the passphrase, wiped when the vault locks or the window closes. Whatever fails
becomes news: no task and no event ends a thread. Connects again by itself.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from broker.client.approver import ApproverError, ApproverKey, Secret, cost_of, derive, read_key_file
from broker.client.control import ControlClient
from broker.client.control_people import People
from broker.client.credential_line import is_want
from broker.client.faults import Broken, ClientError, NotRunning, Refused
from broker.client.places import Places
from broker.client.transport import EventStream
from broker.contract.kdf import STANDARD_FLOOR, KdfError, KdfFloor, KdfParams
from broker.contract.wire import JsonValue
from ui import feed_lists, served, served_policy, wants
from ui.answering import Approve, Deny
from ui.brought_up import named
from ui.feed_aside import Aside
from ui.feed_log import LogFeed
from ui.list_messages import CheckCredential, ForgetHostKey
from ui.messages import (
    Answered,
    ApproverNews,
    BroughtUp,
    CardFault,
    CardNews,
    Connected,
    Decide,
    Done,
    DoubtsNews,
    EndSession,
    Freeze,
    Lock,
    Lost,
    Mute,
    News,
    NotDone,
    OpenCard,
    PolicyNews,
    QueueNews,
    ReadBack,
    ReadList,
    ReadTrail,
    RevokeGrant,
    Settle,
    StatusNews,
    Task,
    Trust,
    TryNow,
    Unlock,
    Verify,
    WantNews,
    WriteCheckpoint,
)
from ui.served import Waiting

TASKS_MOST = 256
_WAITS_S = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0)

OneSentence: TypeAlias = (
    Lock | Freeze | RevokeGrant | EndSession | Mute | Trust | Settle | WriteCheckpoint
    | ForgetHostKey
)  # fmt: skip
"""Tasks whose outcome is told in one sentence."""


class Locked(Exception):  # noqa: N818 - it names what is the case
    """The task needs the approver key, and it is locked."""


class ControlFeed:
    """The daemon, as `messages.Feed` has it. `floor` is the weakest key derivation that is accepted."""

    def __init__(self, places: Places, *, floor: KdfFloor = STANDARD_FLOOR) -> None:
        self._places = places
        self._floor = floor
        self._tell: Callable[[News], object] = _nobody
        self._tasks: queue.Queue[Task | None] = queue.Queue(maxsize=TASKS_MOST)
        self._key_lock = threading.Lock()
        self._key: ApproverKey | None = None
        self._stopping = threading.Event()
        self._hurry = threading.Event()
        self._stream: EventStream | None = None
        self._log = LogFeed(places, self._pass_on)
        self._lists = feed_lists.ListFeed(self._pass_on)
        self._aside = Aside(places, self._pass_on)

    def start(self, tell: Callable[[News], object]) -> None:
        self._tell = tell
        for name, work in (("doorward-events", self._listen), ("doorward-tasks", self._work)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def _pass_on(self, news: News) -> None:
        self._tell(news)  # whoever listens by then

    def do(self, task: Task) -> None:
        if isinstance(task, TryNow):
            self._hurry.set()
            return
        if isinstance(task, Verify):
            self._log.verify()
            return
        if isinstance(task, (ReadBack, CheckCredential)):
            self._aside.do(task)
            return
        try:
            self._tasks.put_nowait(task)
        except queue.Full:
            self._tell(NotDone(task=task, code="", problem="too much to do at once; press the key again"))

    def stop(self) -> None:
        self._stopping.set()
        self._hurry.set()
        if self._stream is not None:
            self._stream.close()
        self._log.stop()
        with contextlib.suppress(queue.Full):  # the thread is a daemon; it ends with the process
            self._tasks.put_nowait(None)
        self._wipe()

    # Listening.

    def _listen(self) -> None:
        tries = 0
        since_ms = 0
        while not self._stopping.is_set():
            try:
                with ControlClient(self._places) as client:
                    stream = client.events()
                    self._stream = stream
                    self._connected(client)
                    tries = 0
                    self._follow(client, stream)
            except ClientError as cause:
                if self._stopping.is_set():
                    return
                tries += 1
                since_ms = since_ms if tries > 1 else _now_ms()
                self._wait(tries, since_ms, cause)

    def _follow(self, client: ControlClient, stream: EventStream) -> None:
        for event in stream:
            if self._stopping.is_set():
                return
            if event is None:
                continue
            if event.name == "focus":
                self._tell(BroughtUp(approval_id=named(event.data)))
                continue
            if event.name in {"approval", "credential_request", "reset"}:
                self._tell(QueueNews(waiting=_waiting(client)))
            if event.name not in {"approval", "credential_request"}:
                self._tell(StatusNews(status=self._status(client)))
                self._lists.sessions(client)
        raise Broken("the daemon ended the stream of events")

    def _connected(self, client: ControlClient) -> None:
        status = self._status(client)
        waiting = _waiting(client)
        self._tell(Connected(status=status, waiting=waiting))
        self._lists.sessions(client)
        with self._key_lock:
            self._introduced(client)

    def _introduced(self, client: ControlClient) -> None:
        """Open the control session anew. A daemon that does not take the key is there all the same."""
        if self._key is None:
            return
        try:
            client.open_session(self._key)
        except (Refused, Broken, ApproverError) as cause:
            self._key.wipe()
            self._key = None
            self._log.forget()
            self._tell(ApproverNews(ready=False, problem=str(cause)))
        else:
            self._tell(ApproverNews(ready=True))

    def _status(self, client: ControlClient) -> served.Status:
        """The status; a vault that is not open takes the approver key of this window with it."""
        with self._key_lock:
            status = served.status(client.status())
            if status.vault_state != "ready" and self._key is not None:
                self._key.wipe()
                self._key = None
                self._log.forget()
                self._tell(ApproverNews(ready=False))
            return status

    def _wait(self, tries: int, since_ms: int, cause: Exception) -> None:
        pause_s = _WAITS_S[min(tries, len(_WAITS_S)) - 1]
        next_ms = _now_ms() + int(pause_s * 1000)
        self._hurry.clear()
        self._tell(Lost(since_ms=since_ms, tries=tries, next_try_at_ms=next_ms, why=self._why(cause)))
        self._hurry.wait(pause_s)

    def _why(self, cause: Exception) -> str:
        if isinstance(cause, NotRunning):
            place = "your runtime directory" if self._places.home is None else "DOORWARD_HOME"
            return f"in {place}, refused the connection"
        return str(cause)

    # Tasks.

    def _work(self) -> None:
        with ControlClient(self._places) as client:
            while not self._stopping.is_set():
                task = self._tasks.get()
                if task is None:
                    return
                try:
                    self._one(client, task)
                except Locked:
                    self._tell(NotDone(task=task, code="", problem="the approver key is locked in this window: u"))
                except Refused as refused:
                    self._not_done(task, refused.code, str(refused))
                except (ClientError, KdfError, ValueError) as cause:
                    client.close()
                    self._not_done(task, "", _in_words(task, cause))

    def _not_done(self, task: Task, code: str, problem: str) -> None:
        if isinstance(task, OpenCard):
            self._tell(CardFault(approval_id=task.approval_id, problem=problem))
        elif not (isinstance(task, ReadList) and code == "control_session_required"):
            self._tell(NotDone(task=task, code=code, problem=problem))

    def _one(self, client: ControlClient, task: Task) -> None:
        match task:
            case OpenCard(approval_id=approval_id):
                if self._key is not None:
                    self._tell(_opened(client, approval_id))
            case Decide():
                self._decide(client, task)
            case Unlock(passphrase=passphrase):
                self._unlock(client, Secret(passphrase))
            case ReadList(screen=screen):
                self._read(client, screen)
            case ReadTrail(correlation_id=correlation_id):
                if self._key is not None:
                    self._log.trail(client, correlation_id)
            case TryNow() | Verify() | ReadBack() | CheckCredential():
                self.do(task)
            case _:
                self._tell(Done(task=task, words=self._act(client, task)))

    def _act(self, client: ControlClient, task: OneSentence) -> str:
        match task:
            case Lock():
                client.lock()
                return "the vault is locked"
            case Freeze():
                client.freeze()
                return "everything is frozen; to go on: doorward thaw"
            case RevokeGrant(grant_id=grant_id):
                client.revoke_grant(grant_id)
                return "the grant is revoked"
            case EndSession():
                return feed_lists.ended(client, task)
            case ForgetHostKey():
                return feed_lists.forgotten(client, task, self._held_key())
            case Mute(session_id=session_id, muted=True):
                client.mute(session_id)
                return "the session is muted"
            case Mute(session_id=session_id):
                client.unmute(session_id, self._held_key())
                return "the session is heard again"
            case Trust(digest=digest, counter=counter):
                client.trust_policy(digest, counter, self._held_key())
                return "the new policy is in force"
            case Settle(correlation_id=correlation_id, outcome=outcome, reason=reason):
                client.settle(correlation_id, outcome, reason, self._held_key())
                return "settled by your word"
            case WriteCheckpoint():
                said = self._log.checkpoint(client)
                self._lists.checkpoints(client)
                return said

    def _decide(self, client: ControlClient, task: Decide) -> None:
        answer = self._sent(client, task)
        self._tell(Answered(approval_id=task.approval_id, state=str(answer.get("state") or "settled")))

    def _sent(self, client: ControlClient, task: Decide) -> dict[str, JsonValue]:
        match task.answer:
            case Deny(reason=reason) if is_want(task.approval_id):
                return People(client).decline(task.approval_id, reason)
            case Deny(reason=reason, end_session=end_session):
                return client.deny(task.approval_id, reason=reason, end_session=end_session)
            case Approve(scope=scope, confirm=confirm, choice=choice):
                if task.served is None:
                    raise Broken("no card was drawn: nothing was signed")
                return client.approve(task.served, self._held_key(), scope=scope, choice=choice, confirm=confirm)

    def _unlock(self, client: ControlClient, passphrase: Secret) -> None:
        """The key file is tried first: a wrong passphrase is known here, before the daemon is asked."""
        with self._key_lock:
            file = read_key_file(self._places.approver_key)
            keys = derive(passphrase, file.kdf, floor=self._floor)
            key = file.opened(keys.approver_kek)
            status = served.status(client.status())
            if status.vault_state != "ready":
                vault_kdf = KdfParams.from_json(status.kdf)
                if vault_kdf != file.kdf:
                    keys = derive(passphrase, vault_kdf, floor=cost_of(file.kdf))
                client.unlock(keys.vault_kek)
            client.open_session(key)
            if self._key is not None:
                self._key.wipe()
            self._key = key
        self._tell(StatusNews(status=served.status(client.status())))
        self._tell(ApproverNews(ready=True))

    def _held_key(self) -> ApproverKey:
        key = self._key
        if key is None:
            raise Locked
        return key

    def _read(self, client: ControlClient, screen: str) -> None:
        match screen:
            case "Approvals":
                self._tell(QueueNews(waiting=_waiting(client)))
                if self._key is not None:
                    self._log.activity(client)
            case "Sessions":
                self._lists.sessions(client)
                if self._key is not None:
                    self._log.past(client)
            case "Policy":
                self._tell(PolicyNews(facts=served_policy.policy(client.policy(), client.policy_pending())))
            case "Audit":
                self._tell(StatusNews(status=self._status(client)))
                self._log.facts()
                if self._key is not None:
                    self._lists.checkpoints(client)
            case _ if self._key is not None:
                self._read_sealed(client, screen)
            case _:
                pass

    def _read_sealed(self, client: ControlClient, screen: str) -> None:
        match screen:
            case "Vault":
                self._lists.vault(client)
                self._log.activity(client)
            case "In doubt":
                self._tell(DoubtsNews(doubts=served.operations({"operations": client.operations(state="in_doubt")})))
            case "Activity":
                self._log.activity(client)
            case _:
                pass

    def _wipe(self) -> None:
        with self._key_lock:
            if self._key is not None:
                self._key.wipe()
                self._key = None


def _waiting(client: ControlClient) -> tuple[Waiting, ...]:
    """The whole queue: cards, and credentials that agents wait for."""
    cards = served.waiting({"approvals": client.approvals()})
    return (*cards, *wants.entries(People(client).wants()))


def _opened(client: ControlClient, approval_id: str) -> CardNews | WantNews:
    if is_want(approval_id):
        return WantNews(want=wants.want(People(client).want(approval_id)))
    return CardNews(served=client.approval(approval_id))


def _nobody(_: News) -> object:
    """Until `start`, nobody listens."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _in_words(task: Task, cause: Exception) -> str:
    if isinstance(task, Decide) and isinstance(cause, Broken) and cause.sent:
        return f"not known whether your answer was taken: {cause}"
    return str(cause)
