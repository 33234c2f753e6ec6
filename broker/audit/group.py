"""A group of records that become durable together: built in memory, closed by a COMMIT, not yet written."""

from collections.abc import Callable, Sequence

from broker.audit.payload import commit_message
from broker.audit.seal import Ratchet
from broker.core.chain import SIGNATURE_BYTES, RecordType, header_of, seal_record


class Group:
    """Begins where the log ends. It changes nothing but itself until it was written."""

    __slots__ = ("_log_id", "_parts", "epoch", "hashes", "head", "seq")

    def __init__(self, *, log_id: bytes, head: bytes, seq: int, epoch: int) -> None:
        self.head = head
        self.seq = seq
        self.epoch = epoch
        self.hashes: list[bytes] = []
        self._log_id = log_id
        self._parts: list[bytes] = []

    def add(self, kind: RecordType, payload: bytes) -> None:
        header = header_of(kind, epoch=self.epoch, seq=self.seq, payload_bytes=len(payload))
        self._append(header, payload)

    def add_signed(self, kind: RecordType, payload_bytes: int, make: Callable[[bytes, bytes], bytes]) -> None:
        """`make(previous, header)` gives the payload, which may sign both."""
        header = header_of(kind, epoch=self.epoch, seq=self.seq, payload_bytes=payload_bytes)
        self._append(header, make(self.head, header))

    def add_events(self, plains: Sequence[bytes], ratchet: Ratchet) -> None:
        """At least one. Their hashes are added to `hashes` in order."""
        records, hashes = ratchet.seal_run(plains, epoch=self.epoch, seq=self.seq, head=self.head)
        self._parts += records
        self.hashes += hashes
        self.head = hashes[-1]
        self.seq += len(hashes)

    def close(self, sign: Callable[[bytes], bytes]) -> bytes:
        """Add the COMMIT; the exact bytes to write."""
        header = header_of(RecordType.COMMIT, epoch=self.epoch, seq=self.seq, payload_bytes=SIGNATURE_BYTES)
        self._append(header, sign(commit_message(self._log_id, self.head, header)))
        return b"".join(self._parts)

    def _append(self, header: bytes, payload: bytes) -> None:
        record, self.head = seal_record(header, payload, self.head)
        self._parts.append(record)
        self.hashes.append(self.head)
        self.seq += 1
