#!/usr/bin/env python3
"""Signs many users in, each on its own device: BROKER HOW-MANY AT-ONCE. Prints each fault, and the number of successes."""
import concurrent.futures
import http.client
import json
import sys
import urllib.parse

broker, count, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def call(base, method, path, body=None, headers=None):
    parts = urllib.parse.urlsplit(base)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


def post(path, value, cookie=None):
    headers = {"Content-Type": "application/json"}
    if cookie:
        headers["Cookie"] = cookie
    return call(broker, "POST", path, json.dumps(value), headers)


def sign_in(number):
    answer, data = post("/v1/logins", {"provider": "oidc", "client": "android"})
    if answer.status != 201:
        return "start: %d %s" % (answer.status, data[:200])
    login = json.loads(data)
    url = login["authorization_url"] + "&sandbox_user=ana"
    for _ in range(5):
        parts = urllib.parse.urlsplit(url)
        answer, _ = call(url, "GET", parts.path + "?" + parts.query)
        url = answer.getheader("Location") or ""
        if not url.startswith("http"):
            break
    answer, data = post("/v1/sessions", {"callback_url": url, "login_token": login["login_token"]})
    if answer.status != 201:
        return "forward: %d %s" % (answer.status, data[:200])
    token = json.loads(data)["session_token"]
    answer, data = call(broker, "GET", "/v1/session", None, {"Authorization": "Bearer " + token})
    return None if answer.status == 200 else "session: %d %s" % (answer.status, data[:200])


def attempt(number):
    try:
        return sign_in(number)
    except Exception as error:
        return repr(error)


with concurrent.futures.ThreadPoolExecutor(workers) as pool:
    faults = [fault for fault in pool.map(attempt, range(count)) if fault]
for fault in faults:
    print(fault)
print("%d of %d" % (count - len(faults), count))
