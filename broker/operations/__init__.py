"""Operations on the edge: the durable attempt ledger, and reconciling what is in doubt."""
