"""A broker with clients of many kinds of redirect URIs, and pages of many schemes."""

from .broker import Broker
from .sandbox import Sandbox

SCHEMES = {
    "myscheme": "MyScheme://", "mypath": "MyScheme:/Cb", "site": "https://Site.example", "port": "https://port.example:443/cb",
    "loop": "http://localhost"}


def many_clients(case):
    """Starts a sandbox and such a broker, and returns both."""
    sandbox = Sandbox(case)
    public = {"auth": "none", "scope": "openid email offline_access"}
    clients = {
        name: public | {"client_id": f"{name}-app", "redirect_uris": [uri], "login": "both"} for name, uri in SCHEMES.items()}
    broker = Broker(case, sandbox, settings={
        "session": {"allowed_origins": [
            "capacitor://localhost", "ionic://localhost", "chrome-extension://abcdefghijklmnopabcdefghijklmnop", "app://-", "https://app.example.com"]},
        "app_links": {"ios": {"app_ids": ["TEAMID1234.com.example.app"], "paths": ["/oauth/*"], "webcredentials": True}},
        "limits": {"logins_per_minute": 100000, "wrong_tokens_per_minute": 100000},
        "providers": {"oidc": {"clients": clients}}}, start=False)
    hosted = public | {"client_id": "hosted-app", "redirect_uris": [f"{broker.url}/callback/oidc"], "hosted_callback_to": "com.example.hosted:/back"}
    broker.configure(providers={"oidc": {"clients": {"hosted": hosted}}})
    broker.start()
    return sandbox, broker
