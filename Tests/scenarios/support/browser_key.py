"""The key of the TypeScript client in a real browser. It is stored in IndexedDB, survives a reload of the page, and cannot be
read.

    python3 browser_key.py FOLDER       the folder with the compiled client
"""

import functools
import http.server
import sys
import threading

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from support.chromium import Chromium  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=sys.argv[1]))
threading.Thread(target=server.serve_forever, daemon=True).start()
page = f"http://127.0.0.1:{server.server_port}/package.json"
verdicts = Verdicts()
browser = Chromium()
try:
    def run(script):
        return browser.run(f"(async () => {{ const client = await import('/coatcheck.js'); const key = new client.WebCryptoKey(); {script} }})()")

    browser.open(page)
    verdicts.verdict(run("return await key.publicKey()") is None, "a browser without a key → no public key")
    verdicts.verdict(run("try { await key.sign(new Uint8Array(1)) } catch (lost) { return lost instanceof client.KeyLost }"), "a signature in a browser without a key → KeyLost")
    made = run("return await key.make()")
    verdicts.verdict(len(made["x"]) == 43 and len(made["y"]) == 43, "a new key → has both coordinates", str(made))
    browser.open(page + "?again")
    verdicts.verdict(run("return await key.publicKey()") == made, "a reload of the page → the key from before the reload")
    verdicts.verdict(run("return (await key.sign(new Uint8Array(3))).length") == 64, "a signature after a reload of the page → 64 bytes")
    verdicts.verdict(run("""
        const pair = await client.indexedKeys('coatcheck').read()
        const taken = await Promise.all(['jwk', 'pkcs8'].map(form => crypto.subtle.exportKey(form, pair.privateKey).then(() => form, () => null)))
        const signed = await key.sign(new Uint8Array(3))
        return !taken[0] && !taken[1] && crypto.subtle.verify({name: 'ECDSA', hash: 'SHA-256'}, pair.publicKey, signed, new Uint8Array(3))"""),
        "the private key after a reload → cannot be exported, and its signature is good")
    another = run("return await key.make()")
    verdicts.verdict(another != made and run("return await key.publicKey()") == another, "a second new key → replaces the first key")
finally:
    browser.close()
verdicts.finish()
