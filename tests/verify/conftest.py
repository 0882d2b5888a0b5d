"""A fake OpenAI-compatible server on real sockets, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import pytest
from aiohttp import web


class FakeServer:
    """Answers each POST with what `behave(body, number)` says, `number` counting the requests.

    `behave` returns a JSON-able body, a web.Response, an awaitable of one, or the words reset or
    half (a connection cut before or within the body); `requests` keeps what was asked. `pages` are
    further pages by their paths: text, JSON-able, or a function of the body that gives it.
    """

    def __init__(self, behave, models=("tiny",), pages=None):
        self.behave = behave
        self.models = models
        self.pages = pages or {}
        self.requests = []
        self.url = ""
        self.dropped = threading.Event()

    async def post(self, request):
        body = await request.json()
        number = len(self.requests)
        self.requests.append({"path": request.path, **body})
        answer = self.behave(body, number)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer == "reset":
            request.transport.abort()
            return web.Response()
        if answer == "half":
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"choices": [')
            request.transport.close()
            return response
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    async def get(self, _request):
        if self.models is None:
            raise web.HTTPNotFound
        return web.json_response({"object": "list", "data": [{"id": m} for m in self.models]})

    async def page(self, request):
        if request.path not in self.pages:
            raise web.HTTPNotFound
        page = self.pages[request.path]
        if callable(page):
            page = page(await request.json() if request.can_read_body else None)
        return web.Response(text=page) if isinstance(page, str) else web.json_response(page)

    @contextmanager
    def running(self):
        loop = asyncio.new_event_loop()
        runner = web.AppRunner(self._app(), handler_cancellation=True, shutdown_timeout=0)

        async def start():
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"

        loop.run_until_complete(start())
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

    def _app(self):
        app = web.Application()
        app.router.add_post("/v1/completions", self.post)
        app.router.add_post("/v1/chat/completions", self.post)
        app.router.add_get("/v1/models", self.page if "/v1/models" in self.pages else self.get)
        app.router.add_route("*", "/{any:.*}", self.page)
        return app


def completion(text="#### 4", finish_reason="stop", **changes):
    """A well-formed answer of the completions endpoint."""
    return {
        "choices": [{"index": 0, "text": text, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
        **changes,
    }


@pytest.fixture
def fake_server():
    """Start a fake server: `fake_server(behave)` gives it, running until the test ends."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start(behave=lambda *_: completion(), **options):
            return stack.enter_context(FakeServer(behave, **options).running())

        start.completion = completion
        yield start
