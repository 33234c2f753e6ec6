"""A card as notices are told of it."""

from broker.desktop.notice_text import NoticeCard

AT_MS = 1_796_000_000_000
CARD = NoticeCard(
    id="ap_1",
    agent="codex",
    effect="DELETE",
    service="cloud",
    operation="accounts.delete",
    host="iam.cloud.example",
    proven=False,
    expires_at_ms=AT_MS,
)
