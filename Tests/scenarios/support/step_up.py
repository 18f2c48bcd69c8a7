"""Step-ups as an app does them, at the sandbox: it starts a login for a session, opens the browser, and forwards the callback."""

import re
import urllib.parse

from .calls import call
from .waiting import GaveUp

# The number of calls that revoke a token pair: one for the refresh token and one for the access token.
A_PAIR = 2
WEAK = {"step_up": {"max_age": 600}}
MFA = {"step_up": {"acr_values": "mfa"}}


def told(answer):
    found = answer.json or {}
    return " ".join(filter(None, [str(answer.status), found.get("code"), found.get("reason")]))


class Login:
    """A login: the answer of its start, its login token, and after `sign_in` its callback."""

    def __init__(self, broker, session=None, body=WEAK, bearer=False, **fields):
        self.broker, self.session, self.bearer = broker, session, bearer
        if bearer and session:
            fields["Authorization"] = f"Bearer {session}"
        self.begun = broker.call("POST", "/v1/logins", None if bearer else session, body, **fields)
        self.url = None
        if self.begun.status == 201:
            self.url = self.begun.json["authorization_url"]
            cookie = re.search(r"coatcheck-login=[^;]+", self.begun.fields["Set-Cookie"] or "")
            self.cookie = cookie and cookie[0]
            self.token = self.begun.json.get("login_token")

    @property
    def asked(self):
        """The parameters of the authorization request."""
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.url).query))

    def sign_in(self, user="ana", **authorize):
        if self.url is None:
            raise GaveUp(f"no login: {told(self.begun)} {self.begun.body}")
        query = urllib.parse.urlencode({"sandbox_user": user} | authorize)
        self.callback = call(f"{self.url}&{query}").fields["Location"]
        return self

    def forward(self, session=..., broker=None, **fields):
        """Forwards the callback to the login's broker, or to another replica."""
        session = self.session if session is ... else session
        cookies = [self.cookie] if self.cookie else []
        if session and self.bearer:
            fields["Authorization"] = f"Bearer {session}"
        elif session:
            cookies.append(f"coatcheck={session}")
        if cookies:
            fields["Cookie"] = "; ".join(cookies)
        body = {"callback_url": self.callback} | ({"login_token": self.token} if self.token else {})
        return (broker or self.broker).call("POST", "/v1/sessions", body=body, **fields)


def step_up(broker, session, body=WEAK, user="ana", **authorize):
    return Login(broker, session, body).sign_in(user, **authorize).forward()
