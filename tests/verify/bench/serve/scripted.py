"""A server that streams tokens, to be started as a process of its own.

    python scripted.py PORT [word ...]

Each chunk waits until the one before it has been noted: a byte more in the file `acks`. Words:
`acks=FILE`, `log=FILE` (a line of JSON for its start, each flush and each request), `usage=end`
(not with each chunk), `chunk=N` (tokens that come at once), `cut=K`, `error=K` (what goes wrong
with its Kth request), `steps=N` (tells so many steps of speculative decoding), `drafts=N` (counts
them on /metrics instead), `flush` (has /flush_cache), `refuses=NAME` (a parameter that it does not
know), `dies` (at once), `echo` (says its Authorization header).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORDS = dict(word.partition("=")[::2] for word in sys.argv[2:])
LOCK = threading.Lock()


def log(**said):
    if "log" in WORDS:
        with LOCK, Path(WORDS["log"]).open("a") as file:
            file.write(json.dumps({"port": sys.argv[1], **said}) + "\n")


def noted():
    file = Path(WORDS["acks"])
    return file.stat().st_size if file.exists() else 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0

    def log_message(self, *_):
        """Only what is asked for goes into the log."""

    def say(self, body, status=200):
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        if self.path == "/v1/models":
            self.say({"data": [{"id": "tiny"}]})
        elif self.path == "/metrics" and "drafts" in WORDS:
            drafts = int(WORDS["drafts"]) * Handler.asked
            names = ("drafts", "accepted_tokens")
            counts = zip(names, (drafts, 2 * drafts), strict=True)
            self.say("".join(f"vllm:spec_decode_num_{name}_total {n}\n" for name, n in counts))
        else:
            self.say({"error": "no such page"}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path == "/flush_cache" and "flush" in WORDS:
            log(flush=True)
            self.say("flushed")
        elif self.path != "/v1/completions":
            self.say({"error": "no such page"}, 404)
        elif WORDS.get("refuses") in body:
            self.say({"error": f"unknown parameter {WORDS['refuses']}"}, 400)
        else:
            with LOCK:
                Handler.asked += 1
                number = Handler.asked
            log(**body)
            if str(number) == WORDS.get("error"):
                key = self.headers.get("Authorization", "") if "echo" in WORDS else ""
                self.say({"error": f"no memory left {key}"}, 500)
            else:
                self.stream(body, number)

    def stream(self, body, number):
        tokens, cut = body["max_tokens"], WORDS.get("cut") == str(number)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        told, size, usage = 0, int(WORDS.get("chunk", 1)), WORDS.get("usage", "each")
        while told < tokens:
            if cut and told > tokens // 2:
                self.close_connection = True
                return
            told = min(tokens, told + (size if told else 1))
            end = "length" if told == tokens else None
            event = {"choices": [{"index": 0, "text": "x", "finish_reason": end}]}
            if usage == "each":
                event["usage"] = {"completion_tokens": told, "prompt_tokens": 3}
            before = noted()
            self.event(event)
            ends = time.monotonic() + 60
            while noted() == before and time.monotonic() < ends:
                time.sleep(0.001)
        said = {"completion_tokens": tokens, "prompt_tokens": 3}
        said["prompt_tokens_details"] = {"cached_tokens": 0}
        last = {"choices": [], "usage": said}
        if "steps" in WORDS:
            last["meta_info"] = {"spec_verify_ct": int(WORDS["steps"])}
        self.event(last)
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, event):
        text = event if isinstance(event, str) else json.dumps(event)
        data = f"data: {text}\n\n".encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client may leave before it has its answer: no reason for lines in the log."""


if __name__ == "__main__":
    if "dies" in WORDS:
        sys.exit(3)
    log(started=True)
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever(poll_interval=0.02)
