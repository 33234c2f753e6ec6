"""What a client may rely on: requests, results, codes, signed bytes and strict JSON. Standard library only."""
