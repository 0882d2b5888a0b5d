"""A tiny OpenAI-compatible server, to be started as a process of its own.

    python scripted_server.py PORT [word ...]

It adds: the answer to "What is 3 + 3?" is 6, and `offset=1` makes it 7. Further words: `slow=S`
(ready after S seconds), `never` (listens, but is never ready), `dies` (says why and ends),
`child` (starts a child that ignores SIGTERM), `stubborn` (ignores SIGTERM itself), `echo` (repeats
its Authorization header wherever it can), `pids=FILE` (adds the ids of its processes), `info=JSON`
(what /server_info says), `flush` (has /flush_cache), `counter=NAME` (counts answers on /metrics),
`cut=N` (cuts off what fewer than 10 tokens are allowed for, of every Nth number), `hangs=F` (writes
into file F that it was asked, and never answers).
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORDS = dict(word.partition("=")[::2] for word in sys.argv[2:])
say = functools.partial(print, flush=True)
BEGAN = time.monotonic()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served = 0

    def log_message(self, *_):
        """Only what is asked for goes into the log."""

    def say(self, body, status=200, kind="application/json"):
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        ready = "never" not in WORDS and time.monotonic() - BEGAN >= float(WORDS.get("slow", 0))
        if not ready:
            self.say({"error": "loading"}, 503)
        elif self.path == "/v1/models":
            self.say({"data": [{"id": "tiny", "max_model_len": int(WORDS.get("context", 4096))}]})
        elif self.path == "/server_info" and "info" in WORDS:
            self.say(WORDS["info"])
        elif self.path == "/metrics" and "counter" in WORDS:
            self.say(
                f'# HELP x y\n{WORDS["counter"]}_total{{rank="0"}} {self.served}\n',
                kind="text/plain",
            )
        else:
            self.say({"error": "no such page"}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path == "/flush_cache" and "flush" in WORDS:
            self.say("flushed", kind="text/plain")
            return
        if not self.path.endswith("/completions"):
            self.say({"error": "no such page"}, 404)
            return
        key = self.headers.get("Authorization", "")
        if "echo" in WORDS:
            say(f"asked with {key}")
            say(f"asked with {key}", file=sys.stderr)
        asked = body.get("prompt") or body["messages"][-1]["content"]
        number = int(re.findall(r"What is (\d+)", asked)[-1])
        Handler.served += 1
        if "echo" in WORDS and number % 3 == 0:
            self.say({"error": {"message": f"wrong key {key}"}}, 400)
            return
        text = f"{key if 'echo' in WORDS else ''} #### {2 * number + int(WORDS.get('offset', 0))}"
        cut = "cut" in WORDS and number % int(WORDS["cut"]) == 0 and body["max_tokens"] < 10
        if "hangs" in WORDS:
            with suppress(OSError):
                Path(WORDS["hangs"]).write_text("hanging")
            time.sleep(600)
        chat = self.path.endswith("/chat/completions")
        choice = {"message": {"content": text}} if chat else {"text": text}
        self.say(
            {
                "model": "tiny",
                "choices": [{"index": 0, "finish_reason": "length" if cut else "stop", **choice}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 5},
            }
        )


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client may leave before it has its answer: no reason for lines in the log."""


def main():
    pids = [os.getpid()]
    if "child" in WORDS:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        pids.append(subprocess.Popen([sys.executable, "-S", "-c", code]).pid)
    if "stubborn" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "pids" in WORDS:
        with Path(WORDS["pids"]).open("a") as file:
            file.write("".join(f"{pid}\n" for pid in pids))
    say("starting")
    if "dies" in WORDS:
        say("no \x1b[31mGPU\nleft")
        sys.exit(3)
    server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
