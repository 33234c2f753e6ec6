"""The one widget: a grid of rows that were laid out elsewhere."""
