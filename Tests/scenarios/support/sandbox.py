"""A provider emulator as a process."""

from .calls import call
from .programs import SANDBOX
from .waiting import GaveUp, wait_for
from .wire import free_port


class Sandbox:
    """A provider emulator."""

    def __init__(self, case, record=True, base_url=None):
        """`base_url` is the address of a proxy in front of the sandbox."""
        self.port = free_port()
        own = f"http://127.0.0.1:{self.port}"
        self.url = base_url or own
        command = [SANDBOX, "--listen", f"127.0.0.1:{self.port}", *([] if record else ["--no-record"])]
        case.start([*command, "--base-url", base_url] if base_url else command, "sandbox.log")
        if not wait_for(60, lambda: call(own + "/_sandbox/health", seconds=5).status == 200):
            raise GaveUp("the sandbox did not start")

    def control(self, method, path, body=None):
        return call(f"{self.url}/_sandbox{path}", method, body)

    def fault(self, provider, **fault):
        assert self.control("PUT", f"/faults/{provider}", fault).status == 200

    def settings(self, provider, **settings):
        self.control("PUT", f"/settings/{provider}", settings)

    def calls(self, endpoint):
        return self.control("GET", "/counts").json.get(endpoint, 0)

    def lives(self, token):
        return any(item["live"] for item in self.control("GET", "/tokens").json["items"] if item["token"] == token)
