"""The Vault screen: which credentials there are and where they may go. No key shows, copies or edits a value."""

from dataclasses import dataclass, field

from broker.client import card_words as words
from ui.answering import Key
from ui.frame import Hint, last_rule, title
from ui.listing import Listing
from ui.paper import LINE, Paper, Role, Row, Span, cut_end, row, rule, wrap
from ui.screens.listed import ListScreen
from ui.screens.sheet import Effect, Moment, Sheet, body_height, filled
from ui.served import CredentialRow, Status
from ui.world import World

DETAIL_ROWS = 6


def _listing() -> Listing[CredentialRow]:
    return Listing(
        same=lambda item: item.name, searched=lambda item: f"{item.name} {item.kind} {' '.join(item.origins)}"
    )


@dataclass(slots=True, kw_only=True)
class VaultScreen(ListScreen[CredentialRow]):
    listed: Listing[CredentialRow] = field(default_factory=_listing)

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        return () if self.listed.key(key, world.credentials or ()) else None

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        del now
        items = world.credentials or ()
        room = max(body_height(paper) - DETAIL_ROWS - 1, 1)
        head = row(Span(f" {'Name':<15}{'Kind':<11}{'Bound to':<34}Version", Role.FAINT))
        empty = "No credential yet: doorward credential add"
        body = [head, *self.rows(world.credentials, lambda item: _line(item, paper), paper, room, empty=empty)]
        item = self.listed.focused(items)
        if world.status.vault_state == "quarantined":
            body = _quarantine(world.status, paper)
        else:
            body += _detail(item, paper) if item is not None else [row(LINE * paper.width)]
        state = paper.foreign(world.status.vault_state, limit=24) or "state not known"
        return Sheet(
            title=title(
                paper, f"Vault {self.listed.filter_words(paper)}".rstrip(), f"{state}, term {world.status.vault_term}"
            ),
            body=filled(body, paper),
            last_rule=last_rule(paper),
            hints=(
                Hint(key="j/k", word="row"),
                Hint(key="L", word=f"lock{paper.dots}"),
                Hint(key="/", word="filter"),
                Hint(key="1-7", word="screens"),
                Hint(key="q", word="quit"),
            ),
        )


def _quarantine(status: Status, paper: Paper) -> list[Row]:
    """Why nothing runs. Taking it over is for a terminal of its own: it asks for the passphrase and a typed word."""
    said = [one for one in status.warnings if status.vault_reason is not None and status.vault_reason in one]
    words = said or [f"the vault is quarantined ({status.vault_reason or 'it is not told why'})"]
    lines = [folded for one in words for folded in wrap(paper.foreign(one), paper.width - 4)]
    return [
        *(row(Span(f" {' ' if at else '!'} {line}", Role.LOOK)) for at, line in enumerate(lines)),
        (),
        row(" Nothing runs. To see what was found, what is lost and what stays proven, and to take it over:"),
        row(" doorward vault readopt"),
        row(" Restoring what is missing from a backup is better wherever there is one."),
    ]


def _line(item: CredentialRow, paper: Paper) -> Row:
    more = f" +{len(item.origins) - 1}" if len(item.origins) > 1 else ""
    bound = cut_end(paper.foreign(item.origins[0]) if item.origins else "nothing", 33 - len(more), paper.dots) + more
    name, kind = cut_end(paper.foreign(item.name), 14, paper.dots), cut_end(paper.foreign(item.kind), 10, paper.dots)
    return row(f"{name:<15}{kind:<11}{bound:<34}{item.version}")


def _detail(item: CredentialRow, paper: Paper) -> list[Row]:
    rotated = f"rotated {words.clock_time(item.rotated_at_ms)}" if item.rotated_at_ms else "never rotated"
    origins = wrap(" bound   " + "  ".join(paper.foreign(origin) for origin in item.origins), paper.width - 1)
    rows = [
        row(rule(paper.width, LINE, left=paper.foreign(item.name, limit=40))),
        row(f" version {item.version}, put in {words.clock_time(item.created_at_ms)}; {rotated}"),
        *(row(line) for line in origins[:2]),
        row(" checks  not made yet; last use: see Activity"),
        row(" value   never shown, here or anywhere. To change it: doorward credential rotate"),
    ]
    return rows[:DETAIL_ROWS]
