"""What an upstream names for a request of ours (a next page, work to look at) may be followed without our own values.

Upstreams repeat the parameters of a request in the URLs that they give out, a credential's among them. What the
credential claims is taken out before anything is frozen, for it is added anew on the wire; where a value stands in
anything else that was named, nothing is followed. Decides nothing about where a URL may lead.
"""

from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from broker.core.http_secrets import Claims
from broker.core.secret_set import SecretSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Shield:
    """What of a credential may not come back to us. `secrets` is None where no credential took part."""

    claims: Claims = field(default_factory=Claims)
    secrets: SecretSet | None = None

    def without_claimed(self, url: str) -> str:
        """The URL without the parameters that the credential adds; else as it was spelled."""
        head, mark, query = url.partition("?")
        pairs = query.split("&")
        kept = [pair for pair in pairs if unquote_plus(pair.partition("=")[0]).casefold() not in self.claims.parameters]
        if len(kept) == len(pairs):
            return url
        return f"{head}{mark}{'&'.join(kept)}" if kept else head

    def is_told_in(self, text: str) -> bool:
        """Whether a value stands in the text, however it is spelled. A user name is no such value."""
        return self.secrets is not None and self.secrets.clean(text.encode("utf-8", "surrogatepass")).is_echo


BARE = Shield()
