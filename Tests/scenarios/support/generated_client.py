"""Runs the client that openapi-python-client has generated in the current folder
(Tests/scenarios/clients/generated-clients.sh)."""

import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.getcwd())
from generated import AuthenticatedClient, Client  # noqa: E402
from generated.api.login import forward_code, start_login  # noqa: E402
from generated.api.public import list_providers  # noqa: E402
from generated.api.session import get_session  # noqa: E402
from generated.models import (  # noqa: E402
    ForwardCode, NewSession, Problem, RegistrationRequired, Session, StartedLogin, StartLogin,
)

BROKER = os.environ["BROKER"]
count = 0


def say(good, sentence):
    global count
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {sentence}")


class KeepRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


def browser(url, user):
    """Signs in through the sandbox's shortcut for scripts, and returns the callback."""
    opener = urllib.request.build_opener(KeepRedirect)
    url += ("&" if "?" in url else "?") + "sandbox_user=" + user
    while url.startswith("http://127.0.0.1"):
        try:
            opener.open(url, timeout=20)
            raise SystemExit("no redirect")
        except urllib.error.HTTPError as answer:
            url = answer.headers["Location"]
    return url


client = Client(base_url=BROKER)
providers = list_providers.sync(client=client)
say("oidc" in [provider.name for provider in providers.items], "generated Python client, the list of providers → decoded with the contract's types")

refused = start_login.sync_detailed(client=client, body=StartLogin(provider="nobody", client="ios"))
say(isinstance(refused.parsed, Problem) and refused.parsed.code == "provider_not_found", "generated Python client, a login at an unknown provider → decoded as a problem with the code")

login = start_login.sync(client=client, body=StartLogin(provider="oidc", client="android"))
say(isinstance(login, StartedLogin) and isinstance(login.login_token, str), "generated Python client, a started login → decoded with the login token")
callback = browser(login.authorization_url, "ana")
wrong = forward_code.sync(client=client, body=ForwardCode(callback_url=callback + "x", login_token=login.login_token))
say(isinstance(wrong, Problem), "generated Python client, a forward of a wrong callback → decoded as a problem")
made = forward_code.sync(client=client, body=ForwardCode(callback_url=callback, login_token=login.login_token))
if isinstance(made, Problem):  # the wrong state burned nothing; a wrong code does
    login = start_login.sync(client=client, body=StartLogin(provider="oidc", client="android"))
    made = forward_code.sync(
        client=client, body=ForwardCode(callback_url=browser(login.authorization_url, "ana"), login_token=login.login_token))
say(isinstance(made, NewSession) and isinstance(made.session_token, str), "generated Python client, a forward → decoded as a session with the token")
say(made.identity.additional_properties.get("email") == "ana@example.org", "generated Python client, a new session → has the user's e-mail address")
who = get_session.sync(client=AuthenticatedClient(base_url=BROKER, token=made.session_token))
say(isinstance(who, Session) and who.handle == made.handle, "generated Python client, a read with the new session's token → the same session")
nobody = get_session.sync(client=AuthenticatedClient(base_url=BROKER, token="A" * 43))
say(isinstance(nobody, Problem) and nobody.code == "session_required", "generated Python client, a read with an unknown token → decoded as a problem with the code")

# A partial registration of Zephr: its login token is a cookie, which httpx's client keeps.
phone = Client(base_url=BROKER)
started = start_login.sync_detailed(client=phone, body=StartLogin(provider="zephr", client="ios", social_provider="google"))
cookie = started.headers["Set-Cookie"].split(";")[0].partition("=")
phone = Client(base_url=BROKER, cookies={cookie[0]: cookie[2]})
partial = forward_code.sync_detailed(client=phone, body=ForwardCode(callback_url=browser(started.parsed.authorization_url, "newgen")))
say(partial.status_code == 202 and isinstance(partial.parsed, RegistrationRequired), "generated Python client, a 202 for a new user of Zephr → decoded as a required registration")
say([field.name for field in partial.parsed.fields] == ["first-name"], "generated Python client, a required registration → has the missing field")

# Answers of a later minor version, with an additional member, code and reason.
later = json.loads(pathlib.Path(__file__).with_name("generated_growth.json").read_text())
problem = Problem.from_dict(later["problem"])
say((problem.code, problem.reason) == ("device_unknown", "moved"), "generated Python client, a problem with an unknown code, reason and member → decoded")
say(Session.from_dict(later["session"]).handle == later["session"]["handle"], "generated Python client, a session with an unknown member → decoded")
