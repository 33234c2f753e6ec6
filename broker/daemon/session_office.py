"""The Office's part on sessions: who is there, what they may do, and taking it away, with their processes if wanted."""

import asyncio
import os
from collections import Counter

from broker.contract.wire import JsonObject, JsonValue
from broker.core.events import EventName
from broker.core.identity import ProcessFacts
from broker.daemon.archive import Archive
from broker.server import kills
from broker.server.faults import ControlError
from broker.server.office import Signed
from broker.server.session import Session
from broker.server.sessions import Ended


class SessionOffice(Archive):
    """Implements the sessions and grants of server.office.Office."""

    async def sessions(self) -> JsonObject:
        at = self._at
        waiting = Counter(at.desk.waiting_sessions())
        limits = at.rulebook.current().limits
        rows: list[JsonValue] = [{**row, "waiting": waiting[str(row["id"])]} for row in at.sessions.listing()]
        return {
            "sessions": rows,
            "limits": {"cards_per_min": limits.prompts_per_minute, "cards_per_session": limits.pending_cards},
        }

    async def revoke(self, session_id: str, *, kill: bool) -> JsonObject:
        """End it at once; its processes after that, for they might take their time."""
        session = self._session(session_id)
        pidfd, span, cgroup = os.dup(session.pidfd), session.span, session.cgroup
        try:
            self._at.sessions.end(session_id, Ended.REVOKED)
            if not kill:
                return {"id": session_id, "ended": True, "killed": False, "kill": None}
            done = await asyncio.to_thread(kills.kill, pidfd, span=span, cgroup=cgroup)
        finally:
            os.close(pidfd)
        told = done.to_json()
        self._at.sessions.records.tell(EventName.SESSION_KILLED, session_id, told)
        return {"id": session_id, "ended": True, "killed": done.left == 0 and done.way != "none", "kill": told}

    async def mute(self, session_id: str) -> JsonObject:
        self._session(session_id)
        self._at.sessions.mute(session_id, "muted by the human")
        return {"id": session_id, "muted": True}

    async def unmute(self, session_id: str, signed: Signed) -> JsonObject:
        if not self._at.sessions.is_muted(session_id):  # a mute outlives its session
            self._session(session_id)
        await self._at.record(EventName.SESSION_UNMUTED, session=session_id, key=signed.key_id)
        self._at.sessions.unmute(session_id)
        return {"id": session_id, "muted": False}

    async def open_listener(self, signed: Signed, process: ProcessFacts) -> JsonObject:
        """On record before it is of use."""
        name = str(signed.params["name"])
        at = self._at
        await at.record(EventName.LISTENER_OPENED, name=name, pid=process.pid, key=signed.key_id)
        if not at.sessions.declare_listener(process, name):
            raise ControlError("exists", "This process is gone, or stands for something else already.")
        at.changed()
        return {"name": name, "pid": process.pid}

    async def grants(self) -> JsonObject:
        return {"grants": list(self._at.sessions.grant_listing())}

    async def revoke_grant(self, grant_id: str) -> JsonObject:
        if not self._at.sessions.drop_grants(grant_id=grant_id):
            raise ControlError("unknown", "There is no such grant. See: doorward grants list")
        self._at.changed()
        return {"id": grant_id, "ended": True}

    def _session(self, session_id: str) -> Session:
        session = self._at.sessions.get(session_id)
        if session is None:
            raise ControlError("unknown", "There is no such session. See: doorward sessions list")
        return session
