"""A server on raw sockets that adds, or fails in the ways of `server_faults`."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from contextlib import contextmanager

from tests.verify.server_faults import FAULTS, Peer, changed, pieces


class FaultServer:
    """Plays to each request what `choose(body, number)` names, or answers where it names none.

    `number` counts the earlier requests with the same prompt; `asked` keeps those counts.
    """

    def __init__(self, choose=lambda *_: None):
        self.choose = choose
        self.asked: dict[str, int] = {}
        self.port = 0
        self.played: dict[str, int] = {}

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    async def _serve(self, reader, writer):
        peer = Peer(reader, writer)
        try:
            while not await self._request(peer):
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _request(self, peer):
        """One request; whether the connection ends with it."""
        head = (await peer.reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("GET"):
            peer.whole(json.dumps({"data": [{"id": "adder"}]}))
            return False
        length = int(re.search(r"(?i)content-length: (\d+)", head)[1])
        body = json.loads(await peer.reader.readexactly(length))
        prompt = body.get("prompt") or body["messages"][-1]["content"]
        number = self.asked.get(prompt, 0)
        self.asked[prompt] = number + 1
        name = self.choose(body, number)
        self.played[name] = self.played.get(name, 0) + 1
        if name is not None:
            return bool(await FAULTS[name].play(peer, body))
        if body["stream"]:
            peer.events(*pieces(body))
        else:
            peer.whole(changed(body))
        return False

    @contextmanager
    def running(self):
        """Serve from a thread; leaving it resets what is still open."""
        loop = asyncio.new_event_loop()

        async def start():
            server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=4096)
            self.port = server.sockets[0].getsockname()[1]
            return server

        async def stop():
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        server = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(stop(), loop).result(60)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(60)
            loop.close()
