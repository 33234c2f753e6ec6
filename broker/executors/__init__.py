"""Executors: they carry out what a permit names, once, and report what they saw. They judge nothing."""
