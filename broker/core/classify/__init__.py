"""How an answer, or the lack of one, is judged: the same fixed order for every provider."""
