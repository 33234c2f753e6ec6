"""Collections: one read, walked page by page under one decision. Pure; who sends the pages is not known here."""
