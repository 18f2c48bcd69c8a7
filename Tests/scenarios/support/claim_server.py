"""An old server with a claim route (`move_in`), whose answers a test chooses byte for byte."""

import json
import socket
import threading
import time

CREDENTIAL = "canary-credential-9f27c1"


def packed(status, body, **fields):
    """An answer as bytes."""
    body = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Content-Type: application/json", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class ClaimServer:
    """A server on loopback. `sessions` are its sessions by token; `answer` overrides its answer to a question."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/coatcheck/claim"
        self.sessions, self.asked, self.targets, self.answer, self.pause = {}, [], [], None, 0
        threading.Thread(target=self.accept, daemon=True).start()

    def setting(self, **more):
        return {"from": {"url": self.url, "credential": CREDENTIAL}, "until": "2099-12-31"} | more

    def usual(self, question, credential):
        """The answer of a server that keeps its promises."""
        if credential != f"Bearer {CREDENTIAL}":
            return packed(401, {})
        found = self.sessions.get(question["token"])
        return packed(200, found) if found else packed(404, {"id": question["id"]})

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as reader:
            target = reader.readline().decode().split(" ")[1]
            fields = {}
            while (line := reader.readline().strip()):
                name, _, value = line.decode().partition(":")
                fields[name.lower()] = value.strip()
            question = json.loads(reader.read(int(fields.get("content-length", 0))) or "{}")
            self.asked.append(question)
            self.targets.append(target)
            time.sleep(self.pause)
            answer = self.answer(question) if self.answer else self.usual(question, fields.get("authorization"))
            try:
                connection.sendall(answer)
            except OSError:
                pass
