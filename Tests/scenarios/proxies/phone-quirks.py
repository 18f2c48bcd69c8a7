"""Unusual requests that real phones, browsers and gateways send (docs/reference/leniency-browsers.md). One broker serves them
all.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND, Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.many_clients import SCHEMES, many_clients  # noqa: E402
from support.programs import HERE  # noqa: E402
from support.waiting import wait_for  # noqa: E402

FORM = "application/x-www-form-urlencoded"
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"
OTHERS = ("text/plain", "", ";", "text/plain; application/json", f"text/plain; {FORM}", "multipart/form-data; boundary=x")
PARAMETERS = (
    "", ";", "; ", ";;", "; charset=ISO-8859-1", ";charset=utf8", "; charset=UTF-8;", '; Charset="utf-8"', "; charset=utf-8; q=1",
    "; charset=utf-8, utf-8", "; boundary=----x", " ; =", ';charset="', "\t; a=b; a=b")


def forms(case, broker, sandbox):
    """Unusual media types and forms, at each route that reads a body."""
    session = broker.sign_in()
    introspect = {"X_Coatcheck_Backend": BACKEND}
    exchange = urllib.parse.urlencode({
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": session, "subject_token_type": TOKEN_TYPE})
    login = json.dumps({"provider": "oidc", "client": "ios"})
    routes = [
        ("/v1/logins", "application/json", login, {}, 201), ("/v1/introspect", FORM, f"token={session}", introspect, 200),
        ("/v1/token", FORM, exchange, introspect, 200), ("/callback/oidc", FORM, "state=nobodys&code=c", {}, 303),
        ("/v1/backchannel-logout/oidc", FORM, "logout_token=x", {}, 400)]
    for path, media, body, fields, status in routes:
        for type in OTHERS + (f"{media}, {media}", f"text/plain, {media};", media + "x"):
            found = broker.call("POST", path, body=body, Content_Type=type, **fields)
            case.same(415, found.status, f"POST {path} with the media type {type!r} → 415")
        for more in PARAMETERS:
            for type in (media, media.upper()):
                found = broker.call("POST", path, body=body, Content_Type=type + more, **fields)
                case.same(status, found.status, f"POST {path} with the media type {type + more!r} → the body is read")

    def log_out(sid, media, more=""):
        token = sandbox.control("POST", "/backchannel-logout", {
            "provider": "oidc", "client_id": "ios-app", "user": "ana", "sid": sid}).json["token"]
        return broker.call("POST", "/v1/backchannel-logout/oidc", body=f"logout_token={token}{more}", Content_Type=media)

    for number, (media, more) in enumerate((
            (f"{FORM}; charset=ISO-8859-1", ""), (FORM.upper() + ";", "&"), (f'{FORM};charset="latin1"', "&name=%E9&&x=%"))):
        session = broker.sign_in(sandbox_sid=f"sid-{number}")
        case.same(200, log_out(f"sid-{number}", media, more).status, f"a logout token in a body of type {media}, followed by {more!r} → 200")
        case.same("401 session_ended provider_logout", broker.look(session).told, f"a logout token in a body of type {media}, followed by {more!r} → the session ends")
    case.same(400, log_out("sid-9", FORM, "&logout_token=x").status, "a back-channel logout whose form has two logout tokens → 400")


def gateways(case, broker, _):
    """Introspection and token exchange with the unusual parameters that gateways send."""
    session = broker.sign_in()
    exchange = urllib.parse.urlencode({
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": session, "subject_token_type": TOKEN_TYPE})
    proven = {"X_Coatcheck_Backend": BACKEND}
    secret = f"client_id=orders&client_secret={BACKEND}"

    def ask(path, form, **fields):
        return broker.call("POST", path, body=form, Content_Type=FORM, **fields)

    for form, fields, status in (
            ("token=a&token=b", proven, 400), ("token=", proven, 400), ("x=1&x=1", proven, 400), ("client_id=gateway", proven, 400),
            (secret, proven, 400), (secret, {"Authorization": f"Bearer {BACKEND}"}, 400), (secret, {"Authorization": "Basic eDp5"}, 401), (f"client_secret={BACKEND}", {}, 400),
            ("client_id=orders&client_secret=no", {}, 401), ("client_id=gateway&client_secret=" + BACKEND, {}, 401), ("", {}, 401)):
        case.same(status, ask("/v1/introspect", f"token={session}&{form}" if "token=" not in form else form, **fields).status, f"introspection with the form `{form}` → refused")
    case.same(401, ask(f"/v1/introspect?{secret}", f"token={session}").status, "introspection with the client's secret in the query → 401")
    for more in ("resource=", "audience=", "audiance=x", "actor_token=x", "requested_token_type=x", "scope=&scope=", "client_id=gateway"):
        found = ask("/v1/token", f"{exchange}&{more}", **proven)
        case.same("400 invalid_request", found.told, f"token exchange with `{more}` → 400 invalid_request")
        case.same(more.split("=")[0], (found.json.get("errors") or [{}])[0].get("pointer"), f"token exchange with `{more}` → the answer names the parameter")
    case.verdict(broker.call("GET", "/v1/forward-auth?maxage=60", session, **proven).status == 403, "forward-auth with the unknown query parameter `maxage` → 403")
    for more, fields in (
            ("scope=", proven), ("token_type_hint=", proven), ("client_id=orders", proven), ("client_id=", proven), ("foo=bar", proven),
            ("foo=%E9&%", proven), ("&", proven), ("&&=", proven), ("pass=&dpop=&htm=&htu=", proven), (secret, {}), (secret + "&", {})):
        case.same(True, ask("/v1/introspect", f"token={session}&{more}", **fields).json.get("active"), f"introspection with `{more}` → the session is active")
    for more, fields in (("scope=", proven), ("client_id=orders", proven), ("client_id=&scope=", proven), (secret, {}), ("&", proven)):
        case.same(200, ask("/v1/token", f"{exchange}&{more}", **fields).status, f"token exchange with `{more}` → 200")


def cookies(case, broker, _):
    """Cookie fields as cookie jars send them that put values in quotes."""
    session, other = broker.sign_in(), broker.sign_in("ben")

    def look(field):
        return broker.call("GET", "/v1/session", Cookie=field)

    for field, told in (
            (f'coatcheck="{session}"; coatcheck={session}', "400 invalid_request"), (f'coatcheck="{session}"; coatcheck="{other}"', "400 invalid_request"),
            (f'coatcheck="{session}', "400 invalid_request"), (f'coatcheck={session}"', "400 invalid_request"), ('coatcheck="', "400 invalid_request"),
            (f'coatcheck="a; b{session}"', "400 invalid_request"), (f'x="; coatcheck={other}; y="; coatcheck={session}', "400 invalid_request"),
            (f'coatcheck=""{session}""', "401 session_required"), (f"coatcheck='{session}'", "401 session_required"),
            (f'"coatcheck"={session}', "401 session_required"), (f'$Version="1"; $coatcheck="{session}"', "401 session_required")):
        case.same(told, look(field).told, "the cookie field " + field.replace(session, "S").replace(other, "O") + " → refused")
    half = look(f'coatcheck="{session}')
    case.verdict("`coatcheck` has a quote at one end" in half.json["detail"], "a session cookie whose value has a quote at one end → the refusal names the cookie", half.json)
    for field in (
            f'coatcheck="{session}"', f'$Version="1"; coatcheck="{session}"; $Path="/"', f'$Version="1"; coatcheck="{session}";$Path="/";$Domain="h"',
            f'coatcheck="{session}"; $Version="1"', f'a="b=c"; coatcheck="{session}"; d="e', f"$Version=1; coatcheck={session}; $Port",
            f'\tcoatcheck="{session}" ', f'x="; coatcheck="{session}"; y="'):
        case.same("200", look(field).told, "the cookie field " + field.replace(session, "S") + " → accepted")
    for client, wanted in (("ios", ["coatcheck", "coatcheck-login"]),):
        begun = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": client})
        token = re.search(r"coatcheck-login=([^;]+)", begun.fields["Set-Cookie"])[1]
        callback = call(begun.json["authorization_url"] + "&sandbox_user=ana").fields["Location"]
        made = broker.call(
            "POST", "/v1/sessions", body={"callback_url": callback}, Cookie=f'$Version="1"; coatcheck-login="{token}";$Path="/"')
        case.same(201, made.status, "a forward whose login cookie has quotes around its value → a session")
        out = broker.log_out(session)
        set_fields = [begun.fields["Set-Cookie"], *made.fields.get_all("Set-Cookie"), *out.fields.get_all("Set-Cookie")]
        for field in set_fields:
            case.verdict(
                re.search(r"; Max-Age=\d+; Expires=[A-Z][a-z]{2}, \d\d-[A-Z][a-z]{2}-\d{4} \d\d:\d\d:\d\d GMT$", field),
                "a cookie that the broker sets → has Expires right after Max-Age", field)
        case.same(set(wanted), {field.split("=")[0] for field in set_fields}, "a sign-in and a log-out → set no cookies but coatcheck and coatcheck-login")


def java(case, broker, sandbox):
    """Java's own cookie jar, in a real JVM, signs in and logs out."""
    if not shutil.which("java"):
        case.print("# skipped: java is missing")
        return

    def run(url, *how):
        command = ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", str(HERE / "Phone.java"), url, *how]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    clock = Clock(case)
    clock.set(wall=-7200)
    late = Broker(case, sandbox, name="late", clock=clock)
    runs = [case.beside(run, late.url, "login"), case.beside(run, broker.url), case.beside(run, broker.url, "quoted")]
    found = [run.result() for run in runs]
    late.stop()
    case.same("POST 201|jar coatcheck-login version 0 age True".lower(), "|".join(found[0].stdout.split("\n")[:-1]).lower(),
              "a Java app starts a login while the broker's clock is two hours behind → the cookie jar keeps the login cookie")
    whole = "POST 201|jar coatcheck-login version 0 age true|GET 302|POST 201|"
    both = {f"{whole}{jar}|GET 200|DELETE 204|" for jar in (
        "jar coatcheck version 0 age true|jar coatcheck-login version 0 age true",
        "jar coatcheck-login version 0 age true|jar coatcheck version 0 age true")}
    plain = "|".join(found[1].stdout.split("\n")[:-1])
    case.verdict(any(plain.startswith(one) for one in both), "a Java app with a cookie jar signs in and logs out → both succeed, and the jar keeps the cookies unquoted", plain + found[1].stderr[-300:])
    case.verdict("jar coatcheck version" not in plain.split("DELETE 204")[-1], "Java's cookie jar after the log-out → has no session cookie", plain)
    quoted = [line for line in found[2].stdout.split("\n") if not line.startswith("jar")][:-1]
    case.same("POST 201|GET 302|POST 201|GET 200|DELETE 204", "|".join(quoted), "a Java app whose cookie jar quotes the values signs in, reads the session and logs out → all calls succeed")


def begin(broker, client="ios", user="ana", **more):
    """Starts a login and signs the user in. Returns the fields and members for the forward, and the callback URL."""
    begun = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": client, **more})
    assert begun.status == 201, begun.body
    token = begun.json.get("login_token")
    fields = {} if token else {"Cookie": re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]}
    callback = call(begun.json["authorization_url"] + "&" + urllib.parse.urlencode({"sandbox_user": user})).fields["Location"]
    return (fields, {"login_token": token} if token else {}), callback


def forward(broker, login, callback, **more):
    return broker.call("POST", "/v1/sessions", body={"callback_url": callback, **login[1], **more}, **login[0])


def callbacks(case, broker, _):
    """Callback URLs with the additions that platforms and providers make, forwarded and at the hosted callback."""
    login, callback = begin(broker)
    for wrong, name in (
            ("&code=x", "code"), ("&%63ode=x", "code"), ("&st%61te=x", "state"), ("&error=%E9", "error"), ("&iss=%zz", "iss"), ("&iss=a|b", "iss"),
            ("&access_token=x", None), ("&%61ccess_token=x", None), ("&id_token=%", "id_token"), ("&token_type=a&token_type=a", "token_type"),
            ("&response=%E9", "response"), ("&denied=%", "denied"), ("&error_code=%", "error_code"), ("&x=%00", "parameter"),
            ("&x=%7F", "parameter"), ("#x", "fragment"), ("#_=_#", "fragment"), ("#code=x", "fragment"), ("&" * 70, "64")):
        found = forward(broker, login, callback + wrong)
        case.same("400 invalid_callback", found.told, f"a callback URL with {wrong[:30]} at its end → 400 invalid_callback")
        if name:
            case.verdict(name in found.json["detail"], f"a callback URL with {wrong[:30]} at its end → the detail names the faulty part", found.json["detail"])
    control = forward(broker, login, callback + "&x=\x07")
    case.same(400, control.status, "a callback URL that contains a raw control byte → 400")
    scheme, rest = callback.split(":/", 1)
    for other in (scheme + ":/%63b" + rest[2:], scheme + "x:/" + rest, scheme + ":///" + rest, scheme + ":/c|b" + rest[2:]):
        case.same("400 invalid_callback", forward(broker, login, other).told, f"a callback to {other.split('?')[0]}, which differs from the redirect URI → 400 invalid_callback")
    case.same(201, forward(broker, login, callback).status, "a login's unchanged callback, forwarded after its faulty copies were refused → a session")
    for more in (
            "&", "&&", "&&&", "&x=%E9", "&x=caf%e9&y=%", "&x=100%&z=%zz", "&x=a|b", '&x={"a":["<b>"]}', "&x=\\^`", "&x=1&x=2", "&=x", "&=", "&x",
            "&%=1&%E9=2", "&scope=a%20|b", "&session_state=%E9", "&x= y", "&x=\u00e9\u6f22", "&x=a%0D%0Ab", "&x=?a/b:c@d", "&user=%E9",
            "&status=%E9&status=x", "&error_description=%E9", "#", "#_=_", "&#_=_", "&x=%E9#"):
        login, callback = begin(broker)
        case.same(201, forward(broker, login, callback + more).status, f"a callback URL with {more} at its end → a session")
    for change in (lambda url: url.replace("?", "?&"), lambda url: url.replace("?", "?&&x=%E9&"), lambda url: url.replace("?code", "?x=|&%63ode")):
        login, callback = begin(broker)
        case.same(201, forward(broker, login, change(callback)).status, f"a callback with {change(callback).split('code')[0]} before the code → a session")
    for description in ("caf%E9", "a|b", "100%", "{x}", "\u00e9 \u00df", "a&&", "&error_description=%E9", "%0D%0A", "<b>", "x#_=_"):
        login, callback = begin(broker, user="denied")
        denied = re.sub(r"&?error_description=[^&]*", "", callback) + f"&error_description={description}"
        case.same("403 access_denied", forward(broker, login, denied).told, f"a callback with the error description {description} → 403 access_denied")

    login, callback = begin(broker, "hosted")
    target = callback.replace(broker.url, "")
    for wrong in ("&code=x", "&%73tate=x", "&iss=%E9", "&x=%00", "&" * 70):
        found = broker.call("GET", target + wrong)
        case.same("400 invalid_callback", found.told, f"the hosted callback's URL with {wrong[:20]} at its end → 400 invalid_callback")
        case.verdict(found.json["detail"] != "", f"the hosted callback's URL with {wrong[:20]} at its end → the refusal has a detail", found.json)
    for more in ("&", "&&", "&x=%E9", "&x=%", "&x=a|b", "&x={}", "&x=1&x=2", "&=", "&session_state=%ff"):
        login, callback = begin(broker, "hosted")
        sent = broker.call("GET", callback.replace(broker.url, "") + more)
        case.verdict(sent.status == 303 and "handoff=" in sent.fields["Location"], f"the hosted callback's URL with {more} at its end → a handoff", sent.told)
    login, callback = begin(broker, "hosted")
    query = callback.split("?")[1]
    posted = broker.call("POST", "/callback/oidc", body=f"&{query}&&x=%E9&y=a|b&z=%", Content_Type=f"{FORM}; charset=ISO-8859-1")
    case.verdict(posted.status == 303 and "handoff=" in posted.fields["Location"], "the hosted callback as a form post with unusual parameters → a handoff", posted.told)
    handoff = urllib.parse.parse_qs(posted.fields["Location"].split("?")[1])["handoff"][0]
    made = broker.call("POST", "/v1/sessions", body={"handoff": handoff, **login[1]}, **login[0])
    case.same(201, made.status, "an app redeems the handoff from a form post with unusual parameters → a session")
    login, callback = begin(broker, "hosted", user="denied")
    sent = broker.call("GET", callback.replace(broker.url, "") + "&error_description=caf%E9|")
    case.verdict("error=access_denied" in (sent.fields["Location"] or ""), "the hosted callback with an unusual error description → the error goes to the app", sent.fields["Location"])


def spellings(case, broker, sandbox):
    """Redirect URIs that browsers and operating systems return in another spelling."""
    def comes_back(client, target, named=None):
        login, callback = begin(broker, client, **({"redirect_uri": named} if named else {}))
        return forward(broker, login, target + "?" + callback.split("?")[1])

    for client, target in (
            ("myscheme", "myscheme:///"), ("mypath", "myscheme:/cb"), ("mypath", "MyScheme:/Cb/"), ("site", "https://site.example/x"),
            ("site", "https://site.example./"), ("site", "https://site.example:0443/"), ("site", "http://site.example/"),
            ("port", "https://port.example:80/cb"), ("port", "https://port.example/%63b"), ("port", "https://port.example/CB"), ("loop", "http://localhost:443/")):
        case.same("400 invalid_callback", comes_back(client, target).told, f"the redirect URI is {SCHEMES[client]}, and the callback comes to {target} → 400 invalid_callback")
    for client, target in (
            ("myscheme", "myscheme://"), ("myscheme", "MYSCHEME://"), ("mypath", "myscheme:/Cb"), ("site", "https://site.example/"),
            ("site", "HTTPS://SITE.EXAMPLE:443/"), ("port", "https://port.example/cb"), ("port", "https://PORT.example:443/cb"), ("loop", "http://localhost/"),
            ("loop", "http://localhost:80")):
        for named in (None, target):
            case.same(201, comes_back(client, target, named).status, f"the redirect URI is {SCHEMES[client]}, and the callback comes to {target} → a session")
    begun = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": "site", "redirect_uri": "https://site.example/"})
    sent = urllib.parse.parse_qs(begun.json["authorization_url"].split("?")[1])["redirect_uri"][0]
    case.same("https://Site.example", sent, "an app names its redirect URI in another spelling → the provider gets the configured spelling")
    clients = broker.settings["providers"]["oidc"]["clients"]
    twice = {"providers": {"oidc": {"clients": {"twin": clients["site"] | {"client_id": "twin-app", "redirect_uris": ["https://site.example:443/"]}}}}}
    refused = Broker(case, sandbox, name="twice", settings=twice | {"session": broker.settings["session"]}, start=False)
    refused.configure(providers={"oidc": {"clients": {"site": clients["site"]}}})
    checked = subprocess.run([refused.program, "check", "--config", str(refused.configuration)], capture_output=True, text=True, check=False)
    case.verdict(checked.returncode != 0 and "redirect URI that client" in checked.stdout + checked.stderr, "a configuration whose two clients have the same redirect URI in two spellings → `check` refuses the configuration", checked.stdout[-300:])


def origins(case, broker, _):
    """Apps in a web shell, such as Capacitor, and the association file."""
    session = broker.sign_in(client="android")
    shell = {"Origin": "capacitor://localhost", "Sec_Fetch_Site": "cross-site"}
    login = {"provider": "oidc", "client": "android"}
    for fields in ({"Cookie": "coatcheck=x"}, {"Cookie": "coatcheck-login=x"}, {"Cookie": 'coatcheck-pass="x"'}, {"Cookie": "coatcheck-web=x", "Authorization": f"Bearer {session}"}):
        for method, path in (("GET", "/v1/session"), ("POST", "/v1/session/refresh")):
            case.same("403 cross_origin", broker.call(method, path, **shell, **fields).told, f"{method} from a web shell's origin with {fields} → 403 cross_origin")
    for other in ("null", "file://localhost", "capacitor://evil", "ionic://localhost:1", "capacitor://localhost/"):
        found = broker.call("POST", "/v1/logins", body=login, Origin=other)
        case.verdict(found.status == 403 and not found.fields["Access-Control-Allow-Origin"], f"a login from the origin {other}, which is not listed → 403", found.told)
    for origin in ("capacitor://localhost", "ionic://localhost", "chrome-extension://abcdefghijklmnopabcdefghijklmnop", "app://-"):
        asked = broker.call("OPTIONS", "/v1/logins", Origin=origin, Access_Control_Request_Method="POST")
        begun = broker.call("POST", "/v1/logins", body=login, Origin=origin)
        read = broker.call("GET", "/v1/session", Origin=origin, Authorization=f"Bearer {session}")
        case.same("204 201 200", f"{asked.status} {begun.status} {read.status}", f"an app's origin {origin} → preflight, login and session succeed")
        for answer in (asked, begun, read):
            case.same((origin, None), (answer.fields["Access-Control-Allow-Origin"], answer.fields["Access-Control-Allow-Credentials"]), f"a CORS answer to the origin {origin} of an app's web view → allows this origin, without credentials")
    page = broker.call("GET", "/v1/session", Origin="https://app.example.com", Authorization=f"Bearer {session}")
    case.same("true", page.fields["Access-Control-Allow-Credentials"], "a CORS answer to the origin of a listed web page → allows credentials")
    file = broker.call("GET", "/.well-known/apple-app-site-association").json
    case.same({"apps": ["TEAMID1234.com.example.app"]}, file.get("webcredentials"), "Apple's association file → has webcredentials")


def everything(case):
    """Phones, browsers and gateways."""
    sandbox, broker = many_clients(case)
    for part in (forms, gateways, cookies, callbacks, spellings, origins, java):
        case.print(f"# {part.__doc__}")
        part(case, broker, sandbox)
    case.verdict(wait_for(5, lambda: "fatal" not in broker.log().lower()), "all unusual requests of this script → the broker's log has no fatal line")


CASES = {"everything": (everything, 120)}

if __name__ == "__main__":
    main(CASES, __doc__)
