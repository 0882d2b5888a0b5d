"""A server that streams on a schedule, and says in each event when it sent it.

    python scheduled.py EVENTS SECONDS

It prints its port, and sends to whoever connects one event every SECONDS. It is a process of its
own and takes nothing but Python itself, so that it starts at once.
"""

from __future__ import annotations

import socket
import sys
import threading
import time


def main() -> None:
    """Serve until ended."""
    count, gap = int(sys.argv[1]), float(sys.argv[2])
    server = socket.create_server(("127.0.0.1", 0), backlog=1024)
    sys.stdout.write(f"{server.getsockname()[1]}\n")
    sys.stdout.flush()
    while True:
        peer, _ = server.accept()
        threading.Thread(target=_stream, args=(peer, count, gap), daemon=True).start()


def _stream(peer: socket.socket, count: int, gap: float) -> None:
    with peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.recv(1 << 16)  # whatever it asks for
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        peer.sendall(head.encode())
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number * gap - time.monotonic()))
            end = '"stop"' if number == count - 1 else "null"
            choice = f'{{"text": "x", "finish_reason": {end}}}'
            event = f'{{"choices": [{choice}], "at": {time.monotonic()!r}}}'
            peer.sendall(f"data: {event}\n\n".encode())


if __name__ == "__main__":
    main()
