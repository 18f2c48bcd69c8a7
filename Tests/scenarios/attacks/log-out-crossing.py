"""Requests that are in progress during a log-out.

The sources of the attacks are in docs/known-attacks.md. The case makes the attacks first, and then an honest request.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402


def log_outs(case):
    """Requests that are in progress during a log-out → the session stays ended, on every route (SEC-62, SEC-64)"""
    sandbox = Sandbox(case)
    upstream = {"base_url": sandbox.url + "/api", "provider": "oidc", "allow": ["ANY /**"]}
    broker = Broker(case, sandbox, settings={"upstreams": {"api": upstream}})
    for client in ("ios", "android"):
        session = broker.sign_in(client=client)
        fields = {"Authorization": f"Bearer {session}"} if client == "android" else {"Cookie": f"coatcheck={session}"}
        token = broker.exchange(session).json["access_token"]
        case.verdict(sandbox.lives(token), f"{client}, the provider's token before the log-out → live")
        sandbox.fault("oidc", fault="slow-after", delay_ms=700, endpoint="refresh", times=1)
        running = [case.beside(lambda: broker.call("GET", "/v1/relay/api/slow?ms=800", **fields)) for _ in range(3)]
        running.append(case.beside(lambda: broker.call("POST", "/v1/session/refresh", **fields)))
        # When the refresh has reached the provider, all requests have begun.
        deadline = time.monotonic() + 10
        while not sandbox.calls("oidc/refresh") and time.monotonic() < deadline:
            time.sleep(0.02)
        sandbox.control("DELETE", "/requests")
        case.same(204, broker.call("DELETE", "/v1/session", **fields).status, f"{client}, a log-out while four requests are in progress → 204")
        for each in running:
            each.result(20)
        for method, path in (("GET", "/v1/session"), ("POST", "/v1/session/refresh"), ("GET", "/v1/sessions"), ("GET", "/v1/session/events"),
                             ("GET", "/v1/relay/api/echo"), ("DELETE", "/v1/sessions?except=current"), ("POST", "/v1/session/token")):
            case.same("401 session_ended logged_out", broker.call(method, path, **fields).told, f"{client}: {method} {path} after the log-out → 401 session_ended logged_out")
        case.same("400 session_ended", broker.exchange(session).told, f"{client}, a backend's token exchange after the log-out → 400 session_ended")
        case.verdict(broker.row(session, "ended_at")[0] is not None, f"{client}, the session's row after the log-out → has the time of its end")
        broker.restart()
        case.same("401 session_ended logged_out", broker.call("GET", "/v1/session", **fields).told, f"{client}, the session after the log-out and a restart → 401 session_ended logged_out")


if __name__ == "__main__":
    main({"log-outs": (log_outs, 60)}, __doc__)
