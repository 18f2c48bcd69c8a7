"""HTTP requests by a client library, and their answers."""

import dataclasses
import http.client
import json
import time
import urllib.parse


@dataclasses.dataclass
class Answer:
    """An answer; status 0 if there was none, with the reason as its body."""

    status: int
    fields: http.client.HTTPMessage
    body: bytes
    seconds: float

    @property
    def json(self):
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {"items": found}

    @property
    def told(self):
        """The answer in a few words: `401 session_ended grant_revoked`."""
        found = self.json
        words = [str(self.status), found.get("code") or found.get("error") or "", found.get("reason") or ""]
        return " ".join(word for word in words if word)

    @property
    def is_passing_fault(self):
        """Returns whether the answer is a 503 with `Retry-After` that leaves the cookie."""
        return self.status == 503 and (self.fields["Retry-After"] or "").isdigit() and not self.fields["Set-Cookie"]


def call(url, method="GET", body=None, seconds=40, connection=None, **fields):
    """Makes one request; `fields` are header fields with `_` for `-`."""
    begin = time.monotonic()
    parts = urllib.parse.urlsplit(url)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    if isinstance(body, (dict, list)):
        body, headers["Content-Type"] = json.dumps(body), "application/json"
    path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    own = connection or http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    try:
        own.request(method, path, body, headers)
        answer = own.getresponse()
        return Answer(answer.status, answer.headers, answer.read(), time.monotonic() - begin)
    except (OSError, http.client.HTTPException) as error:
        own.close()
        return Answer(0, http.client.HTTPMessage(), repr(error).encode(), time.monotonic() - begin)
    finally:
        if connection is None:
            own.close()
