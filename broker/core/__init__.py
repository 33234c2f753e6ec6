"""Pure decisions over frozen values. No clock, disk, socket, randomness or logging; time is an argument."""
