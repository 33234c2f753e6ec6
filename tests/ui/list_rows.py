"""What the mock-ups of the lists are drawn from: the sessions, doubts, credentials and checkpoints of one morning."""

from dataclasses import replace

from tests.fakes.cards import NOW_MS
from tests.ui.activity_rows import IN_DOUBT
from ui.served import CredentialRow, DoubtRow, GrantRow, InFlight, Link, SessionLimits, SessionRow
from ui.served_lists import HostKeyRow, LogCheckpoint
from ui.served_log import ActivityRow, PastSession
from ui.served_policy import ChangeRow, EditedFile, FaultRow, PolicyFacts, RuleRow

MIN_MS = 60_000
DAY_MS = 86_400_000


def at_time(clock: str) -> int:
    """Milliseconds of a time of the day of NOW_MS."""
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return NOW_MS // DAY_MS * DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1000


LIMITS = SessionLimits(cards_per_min=8, cards_per_session=30)
CLAUDE = SessionRow(
    id="se_1",
    agent="claude-code",
    identified=True,
    span="tree",
    pid=4711,
    exe="/usr/bin/node",
    cwd="~/src/site",
    label="main",
    opened_at_ms=NOW_MS - 38 * MIN_MS,
    calls=22,
    denied=0,
    muted=False,
    named_by="agents",
    digest_ok=True,
    chain=(
        Link(pid=4711, name="node", never=False),
        Link(pid=4102, name="zsh", never=False),
        Link(pid=3990, name="tmux", never=True),
    ),
    in_flight=(InFlight(effect="READ", operation="github.pulls.list", since_ms=NOW_MS - 400),),
)
CODEX = replace(
    CLAUDE,
    id="se_2",
    agent="codex",
    pid=5120,
    exe="/usr/bin/codex",
    cwd="~/src/infra",
    label=None,
    opened_at_ms=NOW_MS - 120 * MIN_MS,
    calls=140,
    denied=1,
    muted=True,
    muted_why="too many cards: 8 in 60 s",
    muted_at_ms=at_time("14:11:00"),
    waiting=11,
    in_flight=(),
)
UNNAMED = replace(
    CLAUDE,
    id="se_3",
    agent="unidentified",
    identified=False,
    named_by=None,
    digest_ok=False,
    span="process",
    pid=6034,
    exe="/usr/bin/python3",
    label=None,
    opened_at_ms=NOW_MS - 12_000,
    calls=1,
    container="3fe2",
    chain=(Link(pid=6034, name="python3", never=False), Link(pid=6030, name="sh", never=True)),
    in_flight=(),
)
READS = GrantRow(
    id="gr_1",
    session_id="se_1",
    agent="claude-code",
    rule="github-read",
    scope="github-read/github",
    effect="read",
    used=42,
    max_uses=200,
    made_at_ms=NOW_MS - 25 * MIN_MS,
    expires_at_ms=NOW_MS + 35 * MIN_MS + 30_000,
)
COMMENTS = replace(
    READS,
    id="gr_2",
    rule="pulls-comment",
    scope="pulls-comment/github",
    effect="write",
    used=1,
    max_uses=10,
    made_at_ms=NOW_MS - 3 * MIN_MS,
    expires_at_ms=NOW_MS + 57 * MIN_MS + 30_000,
)
DONE = PastSession(
    id="se_1",
    agent="claude-code",
    pid=4711,
    opened_at_ms=1,
    ended_at_ms=None,
    why=None,
    requests=22,
    denied=2,
    open=1,
    waiting=0,
    effects=(("READ", 13), ("WRITE", 8), ("RUN", 1)),
    last_denial=None,
)
DEPLOY = DoubtRow(
    correlation_id=IN_DOUBT,
    phase="first_byte_timeout",
    operation="deploy.deployments.create",
    summary="POST https://deploy.acme.example/v2/deployments",
    agent="claude-code",
    sent_at_ms=at_time("14:02:07"),
    read_back="deployments.list",
    change_key="any create on deploy prod web",
    effect="WRITE",
)
BACKUP = replace(
    DEPLOY,
    correlation_id="op_0193a1b2c3d4000000000000000001",
    phase="connection_lost",
    operation="web-2.backup-db",
    summary="deploy@web-2.acme.example:22 backup-db",
    agent="codex",
    sent_at_ms=at_time("14:01:50"),
    change_key=None,
    effect="RUN",
)


def _credential(name: str, kind: str, origin: str, **more: object) -> CredentialRow:
    made = CredentialRow(
        name=name,
        kind=kind,
        origins=(origin,),
        version=1,
        created_at_ms=at_time("09:00:00") - 12 * DAY_MS,
        rotated_at_ms=None,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # fields of a row


CREDENTIALS = (
    _credential("github", "bearer", "https://api.github.com", version=3, rotated_at_ms=at_time("09:00:00")),
    _credential("cloud-ops", "bearer", "https://iam.cloud.example"),
    _credential("deploy-prod", "header", "https://deploy.acme.example"),
    _credential("deploy-web", "ssh_key", "ssh://deploy@web-*:22"),
    _credential("old-ci", "basic", "https://ci.acme.example"),
)
WEB_3 = HostKeyRow(
    host="web-3",
    address="web-3.acme.example",
    port=22,
    algorithm="ssh-ed25519",
    fingerprint="SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDsJwnX2uFqK5vYb1M",
    accepted_at_ms=at_time("13:57:40"),
)


IN_USE = PolicyFacts(
    digest="sha256:3f9c21ab" + "0" * 56,
    counter=17,
    files=("github.toml", "deploy.toml"),
    rules=4,
    services=(("github", "https://api.github.com", "github", True), ("deploy", "https://d", "deploy-prod", True)),
    rule_list=tuple(
        RuleRow(id=name, approval=asks, about=about, reason="", place="github.toml:31", active=True)
        for name, asks, about in (
            ("github-read", "session", "any agent · github · read"),
            ("release-delete", "per_call", "any agent · github · delete"),
            ("pulls-comment", "session", "claude-* · github · write"),
            ("deploy-write", "per_call", "any agent · deploy · write"),
        )
    ),
)


EDITED = replace(
    IN_USE,
    pending_digest="sha256:b7d0412e" + "1" * 56,
    pending_counter=18,
    pending_files=("github.toml", "deploy.toml"),
    same=False,
    state="changed",
    unchanged=34,
    voids=(0, 2),
    edited=(
        EditedFile(name="github.toml", status="changed", modified_at_ms=at_time("13:46:00"), uid=1000),
        EditedFile(name="deploy.toml", status="changed", modified_at_ms=at_time("13:40:00"), uid=1000),
    ),
    changes=(
        ChangeRow(
            direction="loosens",
            subject="claude-* WRITE github issues.create",
            was="ask each",
            becomes="session 50",
            place="policies/github.toml:31",
            rule="issues-write",
            lines=(
                (" ", "[[rules]]"),
                ("-", 'approval = "per_call"'),
                ("+", 'approval = "session"   max_uses = 50   max_age_s = 3600'),
            ),
        ),
        ChangeRow(direction="loosens", subject="any READ deploy *", was="denied", becomes="no asking"),
        ChangeRow(direction="tightens", subject="any DELETE github releases.delete", was="ask each", becomes="denied"),
        ChangeRow(
            direction="new_reach", subject="service deploy", was="no credential", becomes="credential deploy-prod"
        ),
    ),
    warnings=(FaultRow(file="github.toml", line=31, key="max_uses", problem="many uses", expected=""),),
)


def used(seq: int, credential: str, at: str, effect: str, category: str) -> ActivityRow:
    return ActivityRow(
        id=f"op_{seq}",
        seq=seq,
        last_seq=seq,
        event="action.requested",
        state="ended",
        at_ms=at_time(at),
        effect=effect,
        category=category,
        credential=credential,
    )


USES = (
    used(9, "github", "14:02:11", "READ", "success"),
    used(8, "deploy-prod", "14:02:07", "WRITE", "outcome_unknown"),
    used(7, "cloud-ops", "13:59:52", "READ", "partial"),
    used(6, "deploy-web", "13:57:44", "RUN", "success"),
    replace(used(1, "old-ci", "02:01:00", "READ", "authentication_failed"), at_ms=at_time("09:00:00") - 36 * DAY_MS),
)


def checkpoint(seq: int, size: int, epoch: int, at_ms: int) -> LogCheckpoint:
    note = f"doorward/7f21\n{size}\nq3Jx8mZ1canaryRootOfTheTree=\n\n— doorward/7f21/epoch/{epoch} WtHgAGMyc2ln\n"
    return LogCheckpoint(seq=seq, at_ms=at_ms, note=note, size=size, epoch=epoch, countersigned=False)
