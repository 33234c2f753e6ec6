"""doorward's broker: the daemon, its command line and its client library."""
