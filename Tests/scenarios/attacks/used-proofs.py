"""Replays of a used proof, after floods of other proofs and after a restart, and proofs for a forged address.

The sources of the attacks are in docs/known-attacks.md. The case makes the attacks first, and then an honest request.
"""

import http.client
import pathlib
import sys
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402


def flood(case):
    """A flood of proofs → a proof that was used stays used, and other keys are served (W2, W4)"""
    broker = Broker(case, Sandbox(case), settings={"providers": {"oidc": {"clients": {"ios": {"binding": {"mode": "enforce"}}}}}})
    phone, attacker = Phone(broker), Phone(broker)
    for each, user in ((phone, "ana"), (attacker, "bob")):
        case.same(201, each.sign_in(user).status, f"{user} signs in with a key → 201")
        each.call("GET", "/v1/session", each.session)
    caught = {
        (method, path): phone.proof(method, path, phone.session) for method, path in (("GET", "/v1/session"), ("POST", "/v1/session/refresh"))}

    def again(sentence):
        for (method, path), proof in caught.items():
            answer = broker.call(method, path, phone.session, DPoP=proof)
            case.same("401 proof_invalid replayed", answer.told, f"{sentence} → 401 proof_invalid replayed: {method} {path}")

    for (method, path), proof in caught.items():
        case.same(200, broker.call(method, path, phone.session, DPoP=proof).status, f"a proof is used for the first time → 200: {method} {path}")
    again("a proof is used a second time")

    # Send proofs for an address that occurs only in `Host` or `X-Forwarded-Host`.
    own = urllib.parse.urlsplit(broker.url).netloc
    for host in ("evil.example", f"{own}@evil.example", f"{own}/", f"{own},evil.example", f"{own}#"):
        proof = phone.proof("GET", "", phone.session, htu=f"http://{host}/v1/session")
        answer = broker.call("GET", "/v1/session", phone.session, Host=host, DPoP=proof)
        case.verdict(answer.status in (400, 421), f"a request with Host: {host} and a proof for this host → refused", answer.told)
        answer = broker.call("GET", "/v1/session", phone.session, X_Forwarded_Host=host, Forwarded=f"host={host}", DPoP=proof)
        case.same("401 proof_invalid address", answer.told, f"a request with X-Forwarded-Host: {host} and a proof for this host → refused")

    # The attacker sends 4,200 proofs by the attacker's own key. The broker stores at most 4,096 proofs for a key.
    def send(part):
        connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=20)
        proofs = (attacker.proof("GET", "/v1/session", attacker.session, jti=f"flood-{part}-{number}") for number in range(525))
        return [broker.call("GET", "/v1/session", attacker.session, connection=connection, DPoP=proof).told for proof in proofs]

    with ThreadPoolExecutor(8) as pool:
        told = [word for part in pool.map(send, range(8)) for word in part]
    taken = sum(word.startswith("200") for word in told)
    case.verdict(4000 < taken <= 4096, "4,200 requests, each with another proof of one key → served until 4,096 proofs are stored for this key", f"{taken}: {sorted(set(told))}")
    case.same("429 rate_limited", attacker.call("GET", "/v1/session", attacker.session).told, "a call with another proof of a key that has 4,096 stored proofs → 429 rate_limited")
    again("a proof is used again after 4,200 proofs of another key")

    # Someone without a session sends 200 proofs by a key of its own, half of them with the victim's cookie.
    stranger = Phone(broker)
    stranger.nonce = attacker.nonce
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=20)
    for number in range(200):
        proof = stranger.proof("GET", "/v1/session", phone.session, jti=f"stranger-{number}")
        broker.call("GET", "/v1/session", phone.session if number % 2 else None, connection=connection, DPoP=proof)
    again("a proof is used again after 200 proofs of a stranger's key")
    case.same("200", phone.call("GET", "/v1/session", phone.session).told, "a new proof by the session's key after a stranger's flood of proofs → 200")
    third = Phone(broker)
    case.same(201, third.sign_in("eva").status, "another user's sign-in after a stranger's flood of proofs → 201")

    # A restart empties the memory of used proofs, so the nonces of these proofs become invalid.
    broker.restart()
    for (method, path), proof in caught.items():
        answer = broker.call(method, path, phone.session, DPoP=proof)
        case.same("401 use_dpop_nonce", answer.told, f"a proof is used again after a restart of the broker → 401 use_dpop_nonce: {method} {path}")
    case.same("200", phone.call("GET", "/v1/session", phone.session).told, "a new proof by the session's key after a restart of the broker → 200")


if __name__ == "__main__":
    main({"flood": (flood, 90)}, __doc__)
