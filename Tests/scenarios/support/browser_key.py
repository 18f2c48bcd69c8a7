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
    verdicts.verdict(run("return await key.publicKey()") is None, "a browser that has not made a key → the client returns no public key")
    verdicts.verdict(run("try { await key.sign(new Uint8Array(1)) } catch (lost) { return lost instanceof client.KeyLost }"), "a browser that has not made a key signs → the client throws KeyLost")
    made = run("return await key.make()")
    verdicts.verdict(len(made["x"]) == 43 and len(made["y"]) == 43, "the browser makes a key → the public key has both coordinates", str(made))
    browser.open(page + "?again")
    verdicts.verdict(run("return await key.publicKey()") == made, "the page is reloaded → the client finds the key from before the reload")
    verdicts.verdict(run("return (await key.sign(new Uint8Array(3))).length") == 64, "the page is reloaded → a signature with the key has 64 bytes")
    verdicts.verdict(run("""
        const pair = await client.indexedKeys('coatcheck').read()
        const taken = await Promise.all(['jwk', 'pkcs8'].map(form => crypto.subtle.exportKey(form, pair.privateKey).then(() => form, () => null)))
        const signed = await key.sign(new Uint8Array(3))
        return !taken[0] && !taken[1] && crypto.subtle.verify({name: 'ECDSA', hash: 'SHA-256'}, pair.publicKey, signed, new Uint8Array(3))"""),
        "the page is reloaded → the private key cannot be exported, and a signature with the key is valid")
    another = run("return await key.make()")
    verdicts.verdict(another != made and run("return await key.publicKey()") == another, "the browser makes a second key → the second key replaces the first")
finally:
    browser.close()
verdicts.finish()
