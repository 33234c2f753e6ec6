"""JSON Schemas of answers, compiled once. None ever reaches for another document, and errors repeat no answer."""

from functools import lru_cache

import jsonschema_rs


@lru_cache(maxsize=512)
def compiled_schema(text: str) -> jsonschema_rs.Draft202012Validator:
    """Raises ValueError, which a ValidationError is too, or ReferencingError: see fault_of_schema."""
    return jsonschema_rs.Draft202012Validator(text, mask="it", offline=True)


def fault_of_schema(text: str) -> str | None:
    """Why a text is no schema that can be used; None where it is one."""
    try:
        compiled_schema(text)
    except (ValueError, jsonschema_rs.ReferencingError) as cause:
        return f"not usable: {str(cause).partition(chr(10))[0][:120]}"
    return None
