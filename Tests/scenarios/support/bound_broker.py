"""A broker whose sessions belong to a key."""

import re

from .broker import Broker

ENFORCE = {"mode": "enforce"}


def bound(case, sandbox, binding=None, **more):
    """A broker whose clients have this `binding`."""
    settings = {"providers": {"oidc": {"clients": {
        name: {"binding": binding or ENFORCE} for name in ("ios", "android")}}}}
    return Broker(case, sandbox, settings=settings, **more)


def told(answer):
    found = answer.json
    return " ".join(filter(None, [str(answer.status), found.get("code"), found.get("reason")]))


def is_evidence_wanted(case, answer, code, sentence):
    """Checks a 401 that requires evidence: the code in body and field, a nonce, a challenge, and no change of the cookie."""
    case.same(f"401 {code}", told(answer), sentence)
    case.verdict(
        re.fullmatch(r"[A-Za-z0-9_-]{16}", answer.fields["DPoP-Nonce"] or "") and answer.fields["Coatcheck-Code"] == code.split()[0]
        and (answer.fields["WWW-Authenticate"] or "").startswith("DPoP error=") and not answer.fields["Set-Cookie"],
        f"{sentence} → the answer has nonce, code and challenge, and the cookie stays", str(answer.fields))
