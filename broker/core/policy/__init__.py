"""Policy: what exists, who may, and who must be asked. Parsed once, matched purely."""
