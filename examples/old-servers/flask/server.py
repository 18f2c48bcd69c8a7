# An old server: Flask, with its sessions in Redis (Flask-Session 0.3). It signs users in at a provider, and keeps their refresh
# tokens in its session records.
import base64, hashlib, hmac, json, os, pickle, re, secrets, time, urllib.error, urllib.parse, urllib.request, uuid
from datetime import datetime, timedelta, timezone
import itsdangerous, redis
from flask import Flask, Response, redirect, request, session
from flask_session import RedisSessionInterface

ISSUER, ORIGIN = os.environ["ISSUER"], os.environ["ORIGIN"]
CLIENT_ID, CLIENT_SECRET = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
IDLE, LIFETIME = int(os.environ["IDLE_SECONDS"]), int(os.environ["LIFETIME_SECONDS"])
app = Flask(__name__)
app.secret_key = os.environ["SECRET_KEY"]
app.permanent_session_lifetime = timedelta(seconds=IDLE)
app.config["SESSION_COOKIE_SAMESITE"] = "Lax"
store = redis.Redis.from_url(os.environ["REDIS_URL"])

class Sessions(RedisSessionInterface):
    # Flask-Session 0.3 writes the whole record at the end of every request. So a slow request would put a spent refresh token
    # back into the record. This class writes a record only if the request changed it.
    def save_session(self, app, session, response):
        if session.modified:
            return super().save_session(app, session, response)
        self.redis.expire(self.key_prefix + session.sid, IDLE)

app.session_interface = Sessions(store, "session:", use_signer=True)

def read(sid):
    record = store.get("session:" + sid)
    return pickle.loads(record) if record else None

def write(sid, record, to=store):  # keeps the record's end, and does not bring back a record that has ended
    to.set("session:" + sid, pickle.dumps(record), xx=True, keepttl=True)

def lock(sid):  # of one session, for 30 s; it waits for 3 s, and then raises LockError
    return store.lock("lock:" + sid, timeout=30, blocking_timeout=3)

def provider(path, form=None, token=None):  # raises OSError if the provider refuses or is away
    fields = {"Authorization": f"Bearer {token}" if token else "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()}
    body = urllib.parse.urlencode(form).encode() if form else None
    with urllib.request.urlopen(urllib.request.Request(ISSUER + path, body, fields), timeout=10) as answer:
        return json.loads(answer.read() or b"{}")

def tokens(answer):
    found = {"access_token": answer["access_token"], "access_ends_at": time.time() + answer["expires_in"]}
    return found | ({"refresh_token": answer["refresh_token"]} if "refresh_token" in answer else {})

@app.get("/login")
def login():
    session["login"] = {"state": secrets.token_urlsafe(), "verifier": secrets.token_urlsafe(32)}
    challenge = hashlib.sha256(session["login"]["verifier"].encode()).digest()
    return redirect(ISSUER + "/authorize?" + urllib.parse.urlencode({
        "client_id": CLIENT_ID, "redirect_uri": ORIGIN + "/callback", "response_type": "code",
        "scope": "openid profile offline_access", "state": session["login"]["state"], "code_challenge_method": "S256",
        "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("=")}))

@app.get("/callback")
def callback():
    begun = session.pop("login", None)
    state = request.args.get("state", "")
    if not begun or not hmac.compare_digest(begun["state"].encode(), state.encode()) or "code" not in request.args:
        return "this sign-in was not started here", 400
    answer = provider("/token", {"grant_type": "authorization_code", "code": request.args["code"],
        "redirect_uri": ORIGIN + "/callback", "code_verifier": begun["verifier"]})
    store.delete("session:" + session.sid)
    session.sid = str(uuid.uuid4())  # a new name, because somebody else may know the old one
    session.update(tokens(answer), sub=provider("/userinfo", token=answer["access_token"])["sub"], created_at=int(time.time()),
        scope=answer.get("scope", ""), device=request.headers.get("User-Agent", "")[:64])
    return redirect("/")

def is_due(record):
    return record.get("access_ends_at", 0) < time.time() + 60 and "refresh_token" in record

def fresh(sid):
    """The session's record, refreshed if its access token ends within a minute; for an ended session `None`."""
    with lock(sid):
        record = read(sid)  # again, because another request may have refreshed it
        if record and is_due(record):
            try:
                record |= tokens(provider("/token", {"grant_type": "refresh_token", "refresh_token": record["refresh_token"]}))
            except urllib.error.HTTPError as error:
                if error.code != 400 or b"invalid_grant" not in error.read():
                    raise
                store.delete("session:" + sid)
                return None
            write(sid, record)
        return record

@app.get("/")
def page():
    record = fresh(session.sid) if is_due(session) else session
    # (d) A session that has moved goes on until its access token ends.
    if not record or record.get("access_ends_at", 0) < time.time() or record["created_at"] + LIFETIME < time.time():
        return "sign in at /login", 401
    return "Hello, " + provider("/userinfo", token=record["access_token"])["name"]

@app.post("/logout")
def logout():
    with lock(session.sid):
        record = read(session.sid) or {}
        store.delete("session:" + session.sid, "claim:" + session.sid)  # (e)
    session.clear()
    if "refresh_token" in record:  # (c) A session that has moved has none.
        provider("/revoke", {"token": record["refresh_token"]})
    return "signed out"

@app.errorhandler(OSError)
@app.errorhandler(redis.RedisError)
def away(error):
    return "try again", 503, {"Retry-After": "2"}

# ---- The claim part: copy it from here. -------------------------------------------------------------------------------------

CREDENTIAL = os.environ["CREDENTIAL"]
UNTIL = datetime.fromisoformat(os.environ["UNTIL"]).replace(tzinfo=timezone.utc).timestamp() + 86400  # the end of that day in UTC

@app.post("/coatcheck/claim")
def claim():
    request.get_data()  # read it before an early answer, because some clients report such an answer as a broken connection
    if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), f"Bearer {CREDENTIAL}".encode()):
        return {"error": "the credential is wrong"}, 401
    body = request.get_json(silent=True)
    id, token = (body.get("id"), body.get("token")) if isinstance(body, dict) else (None, None)
    if not isinstance(id, str) or not re.fullmatch("[A-Za-z0-9_-]{43}", id) or not isinstance(token, str):
        return {"error": "id or token is missing"}, 400
    sid = sid_of(token)
    answer = answer_of(id, sid) if sid else None
    if answer is None:
        return {"id": id}, 404
    return Response(answer, mimetype="application/json")

def sid_of(cookie):
    """The session's name in a cookie, read as Flask-Session reads it; for a wrong signature `None`."""
    try:
        return app.session_interface._get_signer(app).unsign(cookie).decode()
    except (itsdangerous.BadSignature, UnicodeError):
        return None

def answer_of(id, sid):
    """The one answer about this session; `None` for an unknown session, and for one that has moved with another id."""
    kept = store.get("claim:" + sid)
    if not kept:
        with lock(sid):  # (b) A refresh in progress ends first.
            kept = store.get("claim:" + sid) or move(id, sid)
    return kept[44:] if kept and kept.startswith(id.encode()) else None

def move(id, sid):
    """Takes the refresh token out of the session's record, and keeps it in an answer of its own."""
    record = read(sid)
    if not record or "refresh_token" not in record or record["created_at"] + LIFETIME < time.time():
        return None
    ends_at = record["created_at"] + LIFETIME
    kept = id + "\n" + json.dumps({"subject": record["sub"], "refresh_token": record.pop("refresh_token"),
        "scope": record["scope"], "created_at": record["created_at"], "expires_at": ends_at, "device": record["device"]})
    with store.pipeline(transaction=True) as both:  # both writes or none
        both.set("claim:" + sid, kept, exat=int(max(ends_at, UNTIL)))  # (a)
        write(sid, record, to=both)  # (c) Refreshes and revocations see only the rest of the record.
        both.execute()
    return kept.encode()

# ---- The end of the claim part. ---------------------------------------------------------------------------------------------

if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ["PORT"]), threaded=True)
