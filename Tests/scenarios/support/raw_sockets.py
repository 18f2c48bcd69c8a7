"""Sends ambiguous and hostile bytes to a running broker (SEC-101 to SEC-106); raw-sockets.sh starts both. After each refused
request, a whole second request follows at once on the same connection. It would end the victim's session. So there must be
exactly one answer with the right status, and the connection must end. At the end, the victim must still be signed in. Slow
clients must be cut while others are served.
"""

import os
import traceback
import urllib.request

import raw_target
from raw_refusals import corpus
from raw_slow_clients import slow_clients
from raw_target import VICTIM, Route, exchange, options, verdict, verdicts


def victim(line):
    found, _ = exchange(Route("victim", line, VICTIM).request("Connection: close"))
    return [answer[0] for answer in found]


def last():
    statuses = victim("GET /v1/session")
    verdict(statuses == [200], f"{raw_target.smuggled_count} requests with a hidden log-out of the victim behind them → the victim is still signed in", f"{statuses}")
    # The hidden request works: sent alone, it does end the session.
    ended, after = victim("DELETE /v1/session"), victim("GET /v1/session")
    verdict(ended == [204] and after == [401], "the log-out that was hidden behind other requests, sent alone → ends the victim's session", f"{ended}, then {after}")
    try:
        os.kill(options.pid, 0)
        with urllib.request.urlopen(options.management + "/readyz", timeout=5) as answer:
            verdict(answer.status == 200, "broker after all raw requests → the same process still runs and is ready")
    except OSError as error:
        verdict(False, "broker after all raw requests → the same process still runs and is ready", str(error))


if __name__ == "__main__":
    try:
        corpus()
        if not options.no_slow:
            slow_clients()
        last()
    except Exception as error:  # the error is printed with the verdicts, not only on standard error
        verdict(False, "all cases of raw requests → run to their end", f"{type(error).__name__}: {error} {traceback.format_exc()[-250:]}")
    verdicts.finish()
