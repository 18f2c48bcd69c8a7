"""An upstream that breaks off in the middle of its answer:

    python3 breaking_off.py PORT

Each request is answered by the first pieces of a body in chunks; then the connection ends, without the last chunk. A
target that ends in `/whole` is answered to its end.
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
    # As the app sees it: some of it has arrived when the rest does not.
    time.sleep(0.3)
    connection.sendall(b"a\r\n\"last\":1}]\r\n0\r\n\r\n" if is_whole else b"7\r\n\"amou")
    connection.close()
