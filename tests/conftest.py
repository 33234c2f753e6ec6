"""What all tests start from, however they were started."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job hands that on to all that we start
    signal.signal(signal.SIGINT, signal.default_int_handler)
