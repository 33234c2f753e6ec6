"""Making the records that vouch: EPOCH with its endorsement and its sealed secret, CHECKPOINT with its lines.

The root key lies in the vault and is lent as a function for one call; what it gives is checked before it is written.
"""

from collections.abc import Callable

from broker.audit.checkpoint import note_body, origin_of, signature_line, signed_note
from broker.audit.epoch import EpochKey, endorsement_message, signature_holds
from broker.audit.faults import AuditError
from broker.audit.group import Group
from broker.audit.payload import Endorser, EpochEntry, LogIdentity
from broker.audit.seal import EpochOpening, Ratchet, seal_opening
from broker.core.chain import EPOCH_BYTES, SIGNATURE_BYTES, RecordType

Sign = Callable[[bytes], bytes]


def checked_root(root: Sign, root_key: bytes) -> Sign:
    """The root's signing function; it raises AuditError where it gives no signature of this log's root key."""

    def sign(message: bytes) -> bytes:
        try:
            signature = root(message)
        except Exception as cause:  # whatever keeps the vault from signing, the log itself is well
            raise AuditError("the vault's root key could not sign; unlock the vault and try again") from cause
        if not signature_holds(root_key, signature, message):
            raise AuditError("the vault's root key is not the one that this log is pinned to; restore the right vault")
        return signature

    return sign


def unsigned(_: bytes) -> bytes:
    """What stands in the place of an endorsement where nobody can give one."""
    return bytes(SIGNATURE_BYTES)


def add_epoch(
    group: Group, *, identity: LogIdentity, key: EpochKey, opening: EpochOpening, endorser: Endorser, sign: Sign
) -> Ratchet:
    """The group goes on in the key's epoch."""
    sealed = seal_opening(
        opening, audit_key=identity.audit_key, log_id=identity.log_id, epoch=key.number, epoch_key=key.public
    )

    def entry(previous: bytes, header: bytes) -> bytes:
        message = endorsement_message(
            log_id=identity.log_id, previous=previous, header=header, endorser=endorser, key=key.public, sealed=sealed
        )
        return EpochEntry(endorser=endorser, key=key.public, signature=sign(message), sealed=sealed).pack()

    group.epoch = key.number
    group.add_signed(RecordType.EPOCH, EPOCH_BYTES, entry)
    return Ratchet(opening.secret)


def add_checkpoint(group: Group, *, identity: LogIdentity, tree_root: bytes, key: EpochKey, root: Sign | None) -> bytes:
    """The note, which must open its group: its tree holds all records before it. Raises OSError."""
    if group.hashes:
        raise OSError("a checkpoint opens its group")
    note = signed_note(log_id=identity.log_id, size=group.seq, root=tree_root, key=key)
    if root is not None:
        name = origin_of(identity.log_id)
        note += signature_line(name, identity.root_key, note_body(name, group.seq, tree_root), root)
    group.add(RecordType.CHECKPOINT, note)
    return note
