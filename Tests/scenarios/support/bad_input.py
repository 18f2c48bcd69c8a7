"""Prints bad request bodies, one on each line: path, fault, the pointer that the answer has to name (or -), the body."""

import json

TOKEN = "x" * 43
GOOD = {
    "/v1/logins": {
        "required": ["provider"],
        "members": {
            "provider": ("oidc", 64), "client": ("ios", 64), "redirect_uri": ("com.example.app:/cb", 2049),
            "scope": ("openid", 2049), "code_challenge": ("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", 44),
            "code_challenge_method": ("S256", 100), "social_provider": ("google", 65), "parameters": ({}, None),
            "login_token": (TOKEN, 129),
        },
        "base": {"provider": "oidc", "client": "ios"},
    },
    "/v1/sessions": {
        "required": [],
        "members": {
            "callback_url": ("com.example.app:/cb?code=c&state=s", 8193), "handoff": (TOKEN, 44),
            "provider": ("oidc", 64), "client": ("ios", 64), "code": ("c0de", 4097),
            "redirect_uri": ("com.example.app:/cb", 2049), "code_verifier": (TOKEN, 129), "state": ("s", 4097),
            "nonce": ("n", 4097), "login_token": (TOKEN, 129), "device": ("phone", 65), "tokens": ({}, None),
        },
        "base": {"provider": "oidc", "client": "ios", "code": "c0de", "code_verifier": TOKEN},
    },
    "/v1/registrations": {
        "required": ["provider", "state_key", "attributes"],
        "members": {
            "provider": ("zephr", 64), "client": ("ios", 64), "state_key": ("sk", 4097),
            "attributes": ({"first-name": "Ana"}, None), "login_token": (TOKEN, 129),
        },
        "base": {"provider": "zephr", "client": "ios", "state_key": "sk", "attributes": {"first-name": "Ana"}},
    },
}


def line(path, what, pointer, body):
    print(path, what, pointer, body if isinstance(body, str) else json.dumps(body), sep="\t")


def doubled(body, name, value):
    text = json.dumps(body)
    return text[:-1] + ("," if body else "") + json.dumps(name) + ":" + json.dumps(value) + "}"


for path, spec in GOOD.items():
    base = spec["base"]
    for name in spec["required"]:
        line(path, f"{name} missing", f"/{name}", {k: v for k, v in base.items() if k != name})
    for name, (good, too_long) in spec["members"].items():
        pointer = f"/{name}"
        wrong_types = [7, True, None, ["x"]] + ([{}] if isinstance(good, str) else ["text"])
        for wrong in wrong_types:
            line(path, f"{name} is {json.dumps(wrong)}", pointer, base | {name: wrong})
        if isinstance(good, str):
            line(path, f"{name} is empty", pointer, base | {name: ""})
            line(path, f"{name} has a control character", pointer, base | {name: good + "\u0001"})
            line(path, f"{name} has {too_long} characters", pointer, base | {name: "a" * too_long})
        line(path, f"{name} twice", pointer, doubled(base | {name: good}, name, good))
    line(path, "an unknown member", "/colour", base | {"colour": "red"})
line("/v1/sessions", "nothing to forward", "-", {"provider": "oidc", "client": "ios"})
line("/v1/sessions", "a callback URL and a handoff", "-", {"callback_url": "com.example.app:/cb?code=c", "handoff": TOKEN})
line("/v1/sessions", "a legacy access token without its merchant id", "/tokens/merchant_id",
     {"provider": "clover", "client": "ios", "tokens": {"access_token": "at"}})
line("/v1/sessions", "tokens with an unknown member", "/tokens/colour",
     {"provider": "clover", "client": "ios", "tokens": {"access_token": "at", "refresh_token": "rt", "colour": 1}})
for value in (None, [], {}):
    line("/v1/registrations", f"an attribute that is {json.dumps(value)}", "/attributes/first-name",
         GOOD["/v1/registrations"]["base"] | {"attributes": {"first-name": value}})
line("/v1/logins", "a parameter that is a number", "/parameters/login_hint",
     {"provider": "oidc", "client": "ios", "parameters": {"login_hint": 7}})
