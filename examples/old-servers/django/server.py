# An old server: Django, with its sessions in its database (django.contrib.sessions). It signs users in at a provider, and keeps
# their refresh tokens in its session records. The lock of a session is the lock of its row.
import base64, hashlib, json, os, re, secrets, sys, time, urllib.error, urllib.parse, urllib.request
from datetime import datetime, timedelta, timezone
import django
from django.conf import settings

ISSUER, ORIGIN = os.environ["ISSUER"], os.environ["ORIGIN"]
CLIENT_ID, CLIENT_SECRET = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
LIFETIME = int(os.environ["LIFETIME_SECONDS"])
database = urllib.parse.urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    SECRET_KEY=os.environ["SECRET_KEY"], ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], USE_TZ=True,
    INSTALLED_APPS=["django.contrib.sessions"], MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
    SESSION_COOKIE_AGE=int(os.environ["IDLE_SECONDS"]),
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "HOST": database.hostname, "PORT": database.port,
        "USER": database.username, "PASSWORD": database.password or "", "NAME": database.path[1:]}})
django.setup()

from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.core.servers import basehttp
from django.core.wsgi import get_wsgi_application
from django.db import connection, models, transaction
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils.crypto import constant_time_compare
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

def locked(key):
    """The live row of this session, locked until the transaction ends; for an ended session `None`."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '3s'")
    found = Session.objects.select_for_update().filter(session_key=key, expire_date__gt=datetime.now(timezone.utc))
    return found.first() if re.fullmatch("[a-z0-9]{32}", key) else None

def write(row, record):
    row.session_data = Session.objects.encode(record)
    row.save(update_fields=["session_data"])

def provider(path, form=None, token=None):  # raises OSError if the provider refuses or is away
    fields = {"Authorization": f"Bearer {token}" if token else "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()}
    body = urllib.parse.urlencode(form).encode() if form else None
    with urllib.request.urlopen(urllib.request.Request(ISSUER + path, body, fields), timeout=10) as answer:
        return json.loads(answer.read() or b"{}")

def tokens(answer):
    found = {"access_token": answer["access_token"], "access_ends_at": time.time() + answer["expires_in"]}
    return found | ({"refresh_token": answer["refresh_token"]} if "refresh_token" in answer else {})

def login(request):
    begun = request.session["login"] = {"state": secrets.token_urlsafe(), "verifier": secrets.token_urlsafe(32)}
    challenge = hashlib.sha256(begun["verifier"].encode()).digest()
    return redirect(ISSUER + "/authorize?" + urllib.parse.urlencode({
        "client_id": CLIENT_ID, "redirect_uri": ORIGIN + "/callback", "response_type": "code",
        "scope": "openid profile offline_access", "state": begun["state"], "code_challenge_method": "S256",
        "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("=")}))

def callback(request):
    begun = request.session.pop("login", None)
    if not begun or not constant_time_compare(begun["state"], request.GET.get("state", "")) or "code" not in request.GET:
        return HttpResponse("this sign-in was not started here", status=400)
    answer = provider("/token", {"grant_type": "authorization_code", "code": request.GET["code"],
        "redirect_uri": ORIGIN + "/callback", "code_verifier": begun["verifier"]})
    request.session.cycle_key()  # a new name, because somebody else may know the old one
    request.session.update(tokens(answer) | {"sub": provider("/userinfo", token=answer["access_token"])["sub"],
        "created_at": int(time.time()), "scope": answer.get("scope", ""), "device": request.headers.get("User-Agent", "")[:64]})
    return redirect("/")

def is_due(record):
    return record.get("access_ends_at", 0) < time.time() + 60 and "refresh_token" in record

def fresh(key):
    """The session's record, refreshed if its access token ends within a minute; for an ended session `None`."""
    with transaction.atomic():
        row = locked(key)
        record = row and row.get_decoded()  # again, because another request may have refreshed it
        if record and is_due(record):
            try:
                record |= tokens(provider("/token", {"grant_type": "refresh_token", "refresh_token": record["refresh_token"]}))
            except urllib.error.HTTPError as error:
                if error.code != 400 or b"invalid_grant" not in error.read():
                    raise
                row.delete()
                return None
            # This writes the row itself, because request.session would write the whole record after the lock has ended.
            write(row, record)
        return record

def page(request):
    record = fresh(request.session.session_key) if is_due(request.session) else request.session
    # (d) A session that has moved goes on until its access token ends.
    if not record or record.get("access_ends_at", 0) < time.time() or record["created_at"] + LIFETIME < time.time():
        return HttpResponse("sign in at /login", status=401)
    return HttpResponse("Hello, " + provider("/userinfo", token=record["access_token"])["name"])

@require_POST
def logout(request):
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    with transaction.atomic():
        row = locked(key)
        Claim.objects.filter(session_key=key).delete()  # (e)
        request.session.flush()
    if row and (token := row.get_decoded().get("refresh_token")):  # (c) A session that has moved has none.
        provider("/revoke", {"token": token})
    return HttpResponse("signed out")

def sweep():
    """What a timer does in place of `clearsessions`: revokes the refresh tokens of ended sessions, and deletes their rows."""
    with transaction.atomic():
        for row in Session.objects.select_for_update(skip_locked=True).filter(expire_date__lt=datetime.now(timezone.utc)):
            if token := row.get_decoded().get("refresh_token"):  # (c) A session that has moved has none.
                provider("/revoke", {"token": token})
            row.delete()
        Claim.objects.filter(kept_until__lt=datetime.now(timezone.utc)).delete()  # (a)

# ---- The claim part: copy it from here. -------------------------------------------------------------------------------------

CREDENTIAL = os.environ["CREDENTIAL"]
UNTIL = datetime.fromisoformat(os.environ["UNTIL"]).replace(tzinfo=timezone.utc) + timedelta(days=1)  # the end of that day in UTC

class Claim(models.Model):
    session_key = models.CharField(primary_key=True, max_length=40)
    claim_id = models.CharField(max_length=43)
    answer = models.TextField()
    kept_until = models.DateTimeField(db_index=True)

    class Meta:
        app_label = "old_server"

@csrf_exempt
@require_POST
def claim(request):
    text = request.body  # read it before an early answer, because some clients report such an answer as a broken connection
    if not constant_time_compare(request.headers.get("Authorization", ""), f"Bearer {CREDENTIAL}"):
        return JsonResponse({"error": "the credential is wrong"}, status=401)
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    id, token = (body.get("id"), body.get("token")) if isinstance(body, dict) else (None, None)
    if not isinstance(id, str) or not re.fullmatch("[A-Za-z0-9_-]{43}", id) or not isinstance(token, str):
        return JsonResponse({"error": "id or token is missing"}, status=400)
    answer = answer_of(id, token) if re.fullmatch("[a-z0-9]{32}", token) else None
    if answer is None:
        return JsonResponse({"id": id}, status=404)
    return HttpResponse(answer, content_type="application/json")

def answer_of(id, key):
    """The one answer about this session; `None` for an unknown session, and for one that has moved with another id."""
    with transaction.atomic():  # both writes or none
        row = locked(key)  # (b) A refresh in progress ends first.
        kept = Claim.objects.filter(session_key=key, kept_until__gt=datetime.now(timezone.utc)).first() or (row and move(id, row))
    return kept.answer if kept and kept.claim_id == id else None

def move(id, row):
    """Takes the refresh token out of the session's record, and keeps it in an answer of its own."""
    record = row.get_decoded()
    if "refresh_token" not in record or record["created_at"] + LIFETIME < time.time():
        return None
    ends_at = record["created_at"] + LIFETIME
    answer = {"subject": record["sub"], "refresh_token": record.pop("refresh_token"), "scope": record["scope"],
        "created_at": record["created_at"], "expires_at": ends_at, "device": record["device"]}
    write(row, record)  # (c) Refreshes and revocations see only the rest of the record.
    return Claim.objects.create(session_key=row.session_key, claim_id=id, answer=json.dumps(answer),
        kept_until=max(datetime.fromtimestamp(ends_at, timezone.utc), UNTIL))  # (a)

# ---- The end of the claim part. ---------------------------------------------------------------------------------------------

class Faults:
    """Answers 503 if the provider or the database is away, or if a session's lock is taken for too long."""
    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_exception(self, request, error):
        if isinstance(error, (OSError, django.db.OperationalError)):
            return HttpResponse("try again", status=503, headers={"Retry-After": "2"})

settings.MIDDLEWARE.append(__name__ + ".Faults")
urlpatterns = [
    path("", page), path("login", login), path("callback", callback), path("logout", logout), path("coatcheck/claim", claim)]

if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    if Claim._meta.db_table not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Claim)
    if sys.argv[1:] == ["sweep"]:
        sweep()
    else:
        basehttp.run("127.0.0.1", int(os.environ["PORT"]), get_wsgi_application(), threading=True)
