"""HTTP over persistent connections, for many callers in one thread."""

import asyncio
import json
import re
import time
import urllib.parse

from ..calls import Answer as PlainAnswer


class Answer(PlainAnswer):
    """An answer. Its fields are a dictionary with lower-case names."""

    def cookie(self, name):
        found = re.search(rf"(?:^|; ?|, ?|\n){name}=([^;]+)", self.fields.get("set-cookie", ""))
        return found[1] if found else None


async def read_head(reader):
    """The first line and the fields of a message. If several fields have one name, line ends join their values."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if value:
            name, value = name.lower(), value.strip()
            fields[name] = f"{fields[name]}\n{value}" if name in fields else value
    return lines[0], fields


async def read_body(reader, fields, is_answer):
    if fields.get("transfer-encoding", "").lower() == "chunked":
        parts = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return b"".join(parts)
    if "content-length" in fields:
        return await reader.readexactly(int(fields["content-length"]))
    return await reader.read() if is_answer else b""


class Unreached(Exception):
    """Raised if there was no answer, because the other side is missing or has disconnected."""


class Connections:
    """The connections of one caller. They are kept as long as the other side keeps them."""

    def __init__(self):
        self.open = {}

    def close(self):
        for _, writer in self.open.values():
            writer.close()
        self.open = {}

    async def call(self, url, method="GET", body=None, form=None, seconds=60, **headers):
        parts = urllib.parse.urlsplit(url)
        key = (parts.hostname, parts.port)
        text = b""
        if body is not None:
            text, headers["Content_Type"] = json.dumps(body).encode(), "application/json"
        if form is not None:
            text, headers["Content_Type"] = urllib.parse.urlencode(form).encode(), "application/x-www-form-urlencoded"
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if text or method in ("POST", "PUT"):
            lines.append(f"Content-Length: {len(text)}")
        begin = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                if key not in self.open:
                    self.open[key] = await asyncio.open_connection(*key, limit=1 << 20)
                reader, writer = self.open[key]
                writer.write("\r\n".join(lines).encode("latin1") + b"\r\n\r\n" + text)
                head, fields = await read_head(reader)
                status = int(head.split(" ")[1])
                content = b"" if method == "HEAD" or status in (204, 304) else await read_body(reader, fields, True)
        except TimeoutError:
            self.drop(key)
            raise
        except (OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as error:
            self.drop(key)
            raise Unreached(repr(error)) from None
        if fields.get("connection", "").lower() == "close" or "content-length" not in fields and "transfer-encoding" not in fields:
            self.drop(key)
        return Answer(status, fields, content, time.monotonic() - begin)

    def drop(self, key):
        if key in self.open:
            self.open.pop(key)[1].close()
