"""Traces: the spans that a collector gets, decoded by OpenTelemetry's own library, and the trace fields that providers and
upstreams get. Other cases cover which callers may cause a recorded trace, and a collector that hangs, refuses or is missing.
"""

import base64
import http.server
import json
import pathlib
import re
import statistics
import sys
import threading
import time

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND, Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402
from support.wire import free_port  # noqa: E402

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


def context(sampled=True, trace=TRACE):
    return f"00-{trace}-{PARENT}-{'01' if sampled else '00'}"


class Collector:
    """A collector that accepts `POST /v1/traces` and decodes each body strictly."""

    def __init__(self, status=200, hangs=False):
        self.bodies, self.spans, self.faults = [], [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if hangs:
                    time.sleep(60)
                collector.take(self.path, self.headers, body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, headers, body):
        self.bodies.append(body)
        try:
            if path != "/v1/traces" or headers["Content-Type"] != "application/json":
                raise ValueError(f"{path} {headers['Content-Type']}")
            message = ExportTraceServiceRequest()
            # OTLP's JSON differs from proto3's JSON in one point: OTLP writes ids in hexadecimal, proto3 in base64.
            text = re.sub(
                rb'"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"',
                lambda found: b'"%s":"%s"' % (found[1], base64.b64encode(bytes.fromhex(found[2].decode()))), body)
            json_format.Parse(text, message, ignore_unknown_fields=False)
            for resource in message.resource_spans:
                names = {item.key: item.value.string_value for item in resource.resource.attributes}
                if names.get("service.name") != "coatcheck" or not names.get("service.version") or not re.fullmatch(r"[^:]+:[0-9]+", names.get("service.instance.id", "")):
                    raise ValueError(f"resource {names}")
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        if len(span.trace_id) != 16 or len(span.span_id) != 8:
                            raise ValueError("an id's length")
                        if not 0 < span.start_time_unix_nano <= span.end_time_unix_nano <= time.time_ns() + 10**9:
                            raise ValueError("times")
                        self.spans.append(span)
        except Exception as error:  # noqa: BLE001
            self.faults.append(f"{error!r}: {body[:300]}")

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def wait(self, name, count=1):
        if not wait_for(20, lambda: len(self.named(name)) >= count):
            raise GaveUp(f"no span {name}: {sorted({s.name for s in self.spans})} {self.faults[:1]}")
        return self.named(name)


def attributes(span):
    return {
        item.key: item.value.string_value if item.value.HasField("string_value") else item.value.int_value
        for item in span.attributes}


def traced(case, sandbox, collector, sample=1.0, requests=False):
    return Broker(case, sandbox, settings={
        "upstreams": {"api": {"base_url": f"{sandbox.url}/api", "provider": "oidc", "allow": ["GET /**"]}},
        "tracing": {"otlp": collector, "sample": sample} if collector else None, "log": {"requests": requests}})


def sent(sandbox, provider, endpoint, name):
    """Returns the values of a field in each request that the sandbox got at an endpoint."""
    items = sandbox.control("GET", f"/requests?provider={provider}&endpoint={endpoint}").json["items"]
    return [[value for key, value in item["headers"] if key.lower() == name] for item in items]


def spans(case):
    """A login, a relay call and a refusal, as spans that the protocol's own library decodes. The spans contain no secrets."""
    sandbox, collector = Sandbox(case), Collector()
    broker = traced(case, sandbox, collector.url, requests=True)
    session = broker.sign_in("ana")
    answer = broker.call(
        "GET", "/v1/relay/api/echo?canary=query", session, traceparent=context(), tracestate="vendor=canary-state")
    case.same(200, answer.status, "a relayed call with a caller's trace → 200")
    broker.call("GET", "/v1/session?canary=query", "canary-no-session-0000000000000000000000000")
    broker.call("GET", "/v1/nothing/canary-path")
    broker.call("BREW", "/v1/session")
    request = collector.wait("POST /v1/sessions")[0]
    relay = collector.wait("GET /v1/relay/{upstream}/{path}")[0]
    upstream = collector.wait("GET api")[0]
    refused = collector.wait("GET /v1/session")[0]
    wait_for(10, lambda: len(collector.named("GET")) and collector.named("other /v1/session") + collector.named("other"))
    case.same([], collector.faults, "every body that the collector has received → is decoded, without an unknown member")
    token_calls = [s for s in collector.wait("POST oidc") if s.parent_span_id == request.span_id]
    case.same(1, len(token_calls), "the span of a sign-in → has one child for the token call")
    case.verdict(
        all(s.trace_id == request.trace_id and s.kind == Span.SPAN_KIND_CLIENT for s in token_calls), "the span of a token call → is a client span in the trace of its request")
    store = [s for s in collector.spans if s.name.startswith("store ") and s.trace_id == request.trace_id]
    case.verdict(len(store) >= 3, "the spans of the store's calls → are in the trace of their request", [s.name for s in store])
    case.same(Span.SPAN_KIND_SERVER, request.kind, "the span of a sign-in's request → is a server span")
    seen = attributes(request)
    case.same(
        ("POST", "/v1/sessions", 201), tuple(seen.get(k) for k in ("http.request.method", "http.route", "http.response.status_code")),
        "the span of a sign-in's request → has method, route and status")
    handle = broker.row(session, "handle")[0]
    case.same(handle, seen.get("coatcheck.session"), "the span of a sign-in's request → has the new session's handle")
    case.same(TRACE, relay.trace_id.hex(), "a relayed call with a caller's trace → the call's span is in the caller's trace")
    case.same((PARENT, relay.span_id), (relay.parent_span_id.hex(), upstream.parent_span_id), "a relayed call with a caller's trace → the caller's span is the parent of the request's span, which is the parent of the upstream call's span")
    got = sent(sandbox, "api", "api", "traceparent")
    case.same([[f"00-{TRACE}-{upstream.span_id.hex()}-01"]], got, "a relayed call with a caller's trace → the upstream gets the trace id, with the broker's span as the parent")
    case.same([["vendor=canary-state"]], sent(sandbox, "api", "api", "tracestate"), "a relayed call with a caller's tracestate → the upstream gets this tracestate")
    problem = attributes(refused)
    case.same((401, "session_required"), (problem.get("http.response.status_code"), problem.get("error.type")), "the span of a refused request → has status and code")
    case.same(0, refused.status.code, "the span of a refused request → is not marked as an error")
    # The provider gets a traceparent from the broker, but no tracestate.
    for endpoint in ("token", "jwks"):
        parents = sent(sandbox, "oidc", endpoint, "traceparent")
        case.verdict(parents and all(len(p) == 1 and re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", p[0]) for p in parents),
                     f"the provider's {endpoint} endpoint → gets a traceparent that the broker made", parents)
        case.verdict(not any(sent(sandbox, "oidc", endpoint, "tracestate")), "the provider's endpoints → get no tracestate")
    begun = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": "ios"}, traceparent=context(trace="c" * 32))
    cookie = re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]
    callback = call(begun.json["authorization_url"] + "&sandbox_user=ben").fields["Location"]
    sandbox.control("DELETE", "/requests")
    made = broker.call(
        "POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie, traceparent=context(trace="c" * 32),
        tracestate="vendor=canary-state")
    case.same(201, made.status, "a sign-in with a stranger's traceparent → 201")
    got = sent(sandbox, "oidc", "token", "traceparent")
    case.verdict(len(got) == 1 and "c" * 32 not in got[0][0], "a sign-in with a stranger's traceparent → the provider does not get the stranger's trace id", got)
    wait_for(10, lambda: any(s.trace_id.hex() == "c" * 32 and s.name == "POST oidc" for s in collector.spans))
    case.verdict(any(s.trace_id.hex() == "c" * 32 and s.name == "POST oidc" for s in collector.spans), "a sign-in with a stranger's traceparent → the broker's own span has the stranger's trace id")
    # The log lines contain the ids of trace and session.
    lines = [json.loads(line) for line in broker.log().splitlines() if line.startswith("{")]
    of_relay = [line for line in lines if line.get("route", "").startswith("/v1/relay")]
    case.same([(TRACE, handle)], [(x.get("trace_id"), x.get("session")) for x in of_relay], "the log line of a relayed call → has trace id and handle")
    login = [line for line in lines if line["message"] == "login succeeded"]
    case.verdict(
        login and login[0].get("session") == handle and login[0].get("trace_id") == request.trace_id.hex()
        and login[0].get("request_id") == seen.get("coatcheck.request_id"), "the log line of a sign-in → has handle, trace id and request id", login[:1])
    names = {s.name for s in collector.spans}
    allowed = re.compile(r"(GET|POST|other)( /[a-z0-9/{}_.-]+)?|(GET|POST) (oidc|api)|store [A-Za-z]+")
    case.same([], sorted(n for n in names if not allowed.fullmatch(n)), "the names of all spans → consist of route templates and configured names")
    everything = b"".join(collector.bodies)
    code = re.search(r"code=([^&]+)", callback)[1]
    secrets = [session, "canary", code, "ana@", cookie.split("=")[1]] + [
        item["token"] for item in sandbox.control("GET", "/tokens").json["items"]]
    case.same([], [s for s in secrets if s.encode() in everything], "all spans → contain no queries, paths, codes, tokens, cookies or addresses")


def whose_decision(case):
    """A trace is recorded only if a trusted proxy or an authenticated backend asks for it, and not if another caller does."""
    sandbox, collector = Sandbox(case), Collector()
    broker = traced(case, sandbox, collector.url, sample=0.0)
    session = broker.sign_in("ana")
    broker.call("GET", "/v1/session", session, traceparent=context())
    broker.call("POST", "/v1/introspect", body="token=x", traceparent=context(trace="a" * 32), X_Coatcheck_Backend="wrong-credential",
                Content_Type="application/x-www-form-urlencoded")
    answer = broker.call("POST", "/v1/introspect", body=f"token={session}", traceparent=context(trace="b" * 32),
                         X_Coatcheck_Backend=BACKEND, Content_Type="application/x-www-form-urlencoded")
    case.verdict(answer.json.get("active") is True, "a backend's introspection with a traceparent → active", answer.told)
    collector.wait("POST /v1/introspect")
    case.same({"b" * 32}, {s.trace_id.hex() for s in collector.spans}, "traceparents by a user, by a backend with a wrong credential and by a backend with the right one → only the last trace is recorded")
    broker.stop()
    second = Collector()
    broker.configure(server={"trusted_proxies": ["127.0.0.1"]}, tracing={"otlp": second.url})
    broker.start()
    broker.call("GET", "/v1/session", session, traceparent=context(sampled=False, trace="d" * 32))
    broker.call("GET", "/v1/session", session, traceparent=context(trace="e" * 32))
    second.wait("GET /v1/session")
    case.same({"e" * 32}, {s.trace_id.hex() for s in second.spans}, "two traceparents from a trusted proxy → only the trace whose traceparent is marked as sampled is recorded")


def nobody_there(case):
    """A collector hangs, refuses or is missing. Requests are as fast as without a collector, and dropped spans are counted."""
    sandbox = Sandbox(case)
    took = {}

    def measure(name, url):
        broker = Broker(case, sandbox, name=name, settings={"tracing": {"otlp": url} if url else None})
        session = broker.sign_in("ana")
        took[name] = statistics.median(broker.look(session).seconds for _ in range(300))
        return broker

    measure("off", None)
    for name, url in (
            ("hangs", Collector(hangs=True).url), ("refuses", Collector(status=503).url), ("absent", f"http://127.0.0.1:{free_port()}")):
        broker = measure(name, url)
        dropped = wait_for(30, lambda: broker.metric("coatcheck_spans_dropped_total", reason="collector"))
        case.verdict(dropped > 0, f"a faulty collector ({name}), dropped spans → counted", dropped)
        said = wait_for(10, lambda: "does not take the traces" in broker.log())
        case.verdict(said, "a collector that accepts no spans → the log reports the collector's fault")
        case.same(1, broker.log().count("does not take the traces"), "a collector that accepts no spans → the log reports the collector's fault only once")
        case.same(200, call(broker.management + "/readyz").status, "a collector that accepts no spans → readiness is 200")
    case.say("a request's time, by the state of the traces' collector: " + ", ".join(f"{name} {seconds * 1000:.2f} ms" for name, seconds in took.items()))
    case.verdict(max(took.values()) < 20 * took["off"] + 0.02, "collectors that accept no spans → requests do not wait for the collectors", took)


def off(case):
    """Without `tracing`, the provider gets no trace field, and the upstream gets the app's own."""
    sandbox = Sandbox(case)
    broker = traced(case, sandbox, None)
    session = broker.sign_in("ana")
    case.same([[]], sent(sandbox, "oidc", "token", "traceparent"), "a sign-in without tracing → the provider gets no traceparent")
    broker.call("GET", "/v1/relay/api/echo", session, traceparent=context(), tracestate="a=b")
    case.same(
        ([[context()]], [["a=b"]]), (sent(sandbox, "api", "api", "traceparent"), sent(sandbox, "api", "api", "tracestate")),
        "a relayed call without tracing → the upstream gets the app's own trace fields")
    case.verdict("trace_id" not in broker.log(), "a broker without tracing → the lines of the broker's log lack a trace_id")


CASES = {
    "spans": (spans, 120), "whose-decision": (whose_decision, 90), "nobody-there": (nobody_there, 120), "off": (off, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
