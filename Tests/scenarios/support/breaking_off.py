"""An upstream that breaks off in the middle of its answer:

    python3 breaking_off.py PORT

It answers each request with the first pieces of a chunked body, and then closes the connection before the last chunk. It
finishes its answer to a target that ends in `/whole`.
"""

import socket
import sys
import time

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    connection, _ = listener.accept()
    head = b""
    while b"\r\n\r\n" not in head and (data := connection.recv(65536)):
        head += data
    is_whole = head.split(b" ")[1].endswith(b"/whole")
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    connection.sendall(b"9\r\n[{\"id\":1,\r\n")
    # The app gets a part of the answer, and then the connection breaks.
    time.sleep(0.3)
    connection.sendall(b"a\r\n\"last\":1}]\r\n0\r\n\r\n" if is_whole else b"7\r\n\"amou")
    connection.close()
