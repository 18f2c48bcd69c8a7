"""`wait_for`, which waits for a condition with a time limit, and the exception of a case that cannot continue."""

import time


class GaveUp(Exception):
    """Raised when a case cannot continue."""


def wait_for(seconds, condition, pause=0.02):
    """Returns the condition's value as soon as it is true, or its last value after that number of seconds."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(pause)
    return found
