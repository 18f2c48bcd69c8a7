"""LemonLDAP::NG, an OpenID provider from another project, on loopback: one process with its own files, and a browser for its
users.

The passwords of its users (dwho, rtyler, msmith) equal their names. They sign in with only a password or with more factors.
These are two levels, which the provider reports as `acr`.
"""

import html
import json
import pathlib
import re
import urllib.parse

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from .calls import call
from .waiting import GaveUp, wait_for
from .wire import free_port

PORTAL = pathlib.Path("/usr/share/lemonldap-ng/portal")
USER, OTHER = "dwho", "rtyler"
PASSWORD, STRONG = "1_password", "2_strong"

SETTINGS = """
[all]
logLevel = info
logger = Lemonldap::NG::Common::Logger::Std
userLogger = Lemonldap::NG::Common::Logger::Std
[configuration]
type = File
dirName = {folder}/configuration
localStorage = Cache::FileCache
localStorageOptions = {{ 'namespace' => 'configuration', 'default_expires_in' => 600, 'cache_root' => '{folder}/cache', 'cache_depth' => 3 }}
[portal]
staticPrefix = /static
templateDir = {portal}/templates
languages = en
"""


class Lemonldap:
    """One process of LemonLDAP::NG, with one public client, `app`."""

    def __init__(self, case, redirect, **client):
        if not PORTAL.exists():
            raise GaveUp("no LemonLDAP::NG: scripts/setup test installs what is missing")
        self.folder = case.folder / "lemonldap"
        for name in ("configuration", "cache", *(f"{kind}/lock" for kind in ("sessions", "persistent", "tokens"))):
            (self.folder / name).mkdir(parents=True)
        port = free_port()
        self.url = self.issuer = f"http://127.0.0.1:{port}"
        key = rsa.generate_private_key(65537, 2048)

        def files(name, kind):
            return {f"{kind}Storage": "Apache::Session::File", f"{kind}StorageOptions": {
                "Directory": str(self.folder / name), "LockDirectory": str(self.folder / name / "lock"),
                "generateModule": "Lemonldap::NG::Common::Apache::Session::Generate::SHA256"}}

        configuration = files("sessions", "global") | files("persistent", "persistent") | files("tokens", "oidc") | {
            "cfgNum": 1, "cfgAuthor": "scenario", "cfgDate": "1627287638", "cfgVersion": "2.16.1", "key": "0123456789abcdef",
            "portal": f"{self.url}/", "domain": "127.0.0.1", "locationRules": {"127.0.0.1": {"default": "accept"}},
            "localSessionStorage": "", "whatToTrace": "uid", "macros": {}, "groups": {}, "exportedVars": {}, "requireToken": 0,
            "authentication": "Choice", "userDB": "Choice", "passwordDB": "Choice",
            "authChoiceModules": dict.fromkeys((PASSWORD, STRONG), "Demo;Demo;Null;;;{}"),
            "adaptativeAuthenticationLevelRules": {f'$_choice eq "{STRONG}"': "=4"},
            "demoExportedVars": {"cn": "cn", "mail": "mail", "uid": "uid"},
            # Its captcha needs ImageMagick, even if the captcha is not used.
            "captcha": "::Auth::Null", "notification": 0, "portalDisplayRegister": 0, "portalDisplayResetPassword": 0,
            "issuerDBOpenIDConnectActivation": 1, "oidcServiceMetaDataIssuer": self.url, "oidcServiceKeyIdSig": "key-1",
            "oidcServicePrivateKeySig": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
            "oidcServicePublicKeySig": key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
            "oidcServiceMetaDataAuthnContext": {f"loa-{level}": level for level in range(1, 6)},
            "oidcRPMetaDataExportedVars": {"app": {"name": "cn", "email": "mail"}},
            "oidcRPMetaDataOptions": {"app": {
                "oidcRPMetaDataOptionsClientID": "app", "oidcRPMetaDataOptionsPublic": 1, "oidcRPMetaDataOptionsRequirePKCE": 1,
                "oidcRPMetaDataOptionsRedirectUris": redirect, "oidcRPMetaDataOptionsBypassConsent": 1,
                "oidcRPMetaDataOptionsIDTokenSignAlg": "RS256", "oidcRPMetaDataOptionsUserIDAttr": "uid",
                "oidcRPMetaDataOptionsRefreshToken": 1} | client}}
        (self.folder / "configuration/lmConf-1.json").write_text(json.dumps(configuration))
        settings = self.folder / "lemonldap-ng.ini"
        settings.write_text(SETTINGS.format(folder=self.folder, portal=PORTAL))
        case.start(
            ["plackup", "-s", "HTTP::Server::PSGI", "-E", "deployment", "--host", "127.0.0.1", "--port", str(port), "-a", PORTAL / "htdocs/index.psgi"],
            "lemonldap.log", {"LLNG_DEFAULTCONFFILE": str(settings)})
        self.log_file = case.folder / "lemonldap.log"
        if not wait_for(60, lambda: call(f"{self.url}/.well-known/openid-configuration").status == 200, 0.2):
            raise GaveUp("LemonLDAP::NG did not start: " + self.log()[-900:])

    def log(self):
        return self.log_file.read_text(errors="replace")


class Browser:
    """A user's browser. It keeps cookies, and fills in the portal's forms."""

    def __init__(self, provider, user=USER):
        self.provider, self.user = provider, user
        self.cookies = {}
        # The number of times that the portal asked for a password.
        self.asked = 0

    def call(self, method, url, form=None):
        fields = {"Accept": "text/html"}
        if self.cookies:
            fields["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if form is not None:
            fields["Content_Type"] = "application/x-www-form-urlencoded"
        answer = call(url, method, urllib.parse.urlencode(form) if form is not None else None, **fields)
        for field in answer.fields.get_all("Set-Cookie") or []:
            name, _, value = field.split(";")[0].partition("=")
            self.cookies[name] = value
            if not value:
                del self.cookies[name]
        return answer

    def open(self, url, how=PASSWORD):
        """Opens an authorization URL, signs in with one of the portal's methods if asked, and returns the callback URL for the
        app.
        """
        answer = self.call("GET", url)
        for _ in range(8):
            location = answer.fields["Location"]
            if location and not location.startswith(self.provider.url):
                return location
            if location:
                answer = self.call("GET", location)
                continue
            page = answer.body.decode(errors="replace")
            forms = re.findall(r"<form\b([^>]*)>(.*?)</form>", page, re.DOTALL)
            wanted = [form for form in forms if f'value="{how}"' in form[1]] or forms
            if not wanted:
                break
            attributes, inside = wanted[0]
            form = {}
            for field in re.findall(r"<input\b[^>]*>", inside):
                found = {name: html.unescape(value) for name, value in re.findall(r'(\w+)="([^"]*)"', field)}
                if found.get("name"):
                    form[found["name"]] = found.get("value", "")
            if "password" in form:
                self.asked += 1
                form |= {"user": self.user, "password": self.user}
            action = re.search(r'action="([^"#]*)"', attributes)
            url = urllib.parse.urljoin(self.provider.url, html.unescape(action[1])) if action and action[1] else url
            answer = self.call("POST", url, form)
        raise GaveUp(f"the portal lets {self.user} not in: {answer.status} {answer.body[-900:]}")
