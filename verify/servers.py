"""An arm that is an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from verify.arms import Completion, Failure, one_line
from verify.client import Client, RequestError
from verify.command import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from evals.suite import Spec
    from verify.limits import Limits
    from verify.site import Site


class ServerArm:
    """An OpenAI-compatible server, asked `concurrency` questions at a time.

    Args:
        name: what the run calls the arm.
        base_url: its address, as `normalised` gives it, or those of several alike, which share
            the questions.
        model: the model to ask for; None takes the one that the server offers.
        concurrency: requests in flight, over all its servers.
        client: how to reach it; by default a client of each address with its own defaults.
        headers: sent with every request.
        body: parameters of every question, over those of its suite.
        limits: how long and how often it is asked.
        stream: whether answers are asked for token by token.
        site: the machine room: what else is to be done with the servers.
        kind: what asks each address where no client is given.
    """

    answered_by: Literal["embedded", "server"] = "server"

    def __init__(
        self,
        name: str,
        base_url: str | Sequence[str],
        *,
        model: str | None = None,
        concurrency: int = 4,
        client: Client | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        stream: bool = False,
        site: Site | None = None,
        kind: type[Client] = Client,
    ) -> None:
        self.name = name
        urls = [base_url] if isinstance(base_url, str) else list(base_url)
        self.base_url = ", ".join(urls)
        self.model = model
        self.concurrency = concurrency
        self._clients = (
            [client]
            if client
            else [
                kind(url, headers=headers, body=body, limits=limits, stream=stream) for url in urls
            ]
        )
        self._body = dict(body or {})
        self._site = site
        self.fresh = site is not None and site.launch is not None
        self._stack = AsyncExitStack()
        self._offered: list[str] | None = None
        self._retries = 0
        self._failures: Counter[str] = Counter()
        self._answered_as: Counter[str] = Counter()

    @property
    def client(self) -> Client:
        """Of its first address."""
        return self._clients[0]

    async def start(self) -> None:
        """Start the server if it is ours, connect, and settle which model to ask for."""
        if self._site is not None:
            await self._site.start()
        for client in self._clients:
            await self._stack.enter_async_context(client)
            await self._settle(client)
        if self._site is not None:
            await self._site.look(self.model)

    async def _settle(self, client: Client) -> None:
        """Take the model that a server offers, or see that it offers the one asked for."""
        unlisted = "no list of models"
        try:
            self._offered = await client.models()
        except RequestError as error:
            if error.kind in {"connection", "timeout"}:
                raise UserError(
                    f"arm {self.name}: no server answers at {client.base_url} "
                    f"({one_line(str(error))}); start it, or correct the address"
                ) from None
            unlisted += f" ({error.kind}: {one_line(str(error))})"
        if self.model is None:
            if self._offered is None or len(self._offered) != 1:
                offered = ", ".join(self._offered or []) or unlisted
                raise UserError(
                    f"arm {self.name}: {client.base_url} offers {one_line(offered)}; "
                    "choose one with --model, or correct the address"
                )
            self.model = self._offered[0]
        elif self._offered and self.model not in self._offered:
            raise UserError(
                f"arm {self.name}: {client.base_url} does not offer model {self.model!r}, but "
                f"{one_line(', '.join(self._offered))}"
            )
        if not _is_text(self.model):
            raise UserError(
                f"arm {self.name}: the model is called {self.model!r}, which no request can say; "
                f"let {client.base_url} call it otherwise, or correct --model"
            )

    async def flush(self) -> bool:
        """Empty the prefix caches; whether every server said that it did."""
        return self._site is not None and await self._site.flush()

    async def answers(
        self, spec: Spec, prompts: Sequence[str], seeds: Sequence[int], load: int | None = None
    ) -> AsyncGenerator[tuple[int, Completion | Failure], None]:
        """Answers as they come, `load` or else `concurrency` requests in flight."""
        await self.flush()
        asked = iter(range(len(prompts)))
        found: asyncio.Queue[tuple[int, Completion | Failure] | Exception] = asyncio.Queue()

        async def work() -> None:
            try:
                for index in asked:
                    found.put_nowait((index, await self._ask(spec, prompts[index], seeds[index])))
            except Exception as error:  # noqa: BLE001 - raised again where it is seen
                found.put_nowait(error)

        flying = min(load or self.concurrency, len(prompts))
        workers = [asyncio.create_task(work()) for _ in range(flying)]
        try:
            for _ in prompts:
                answer = await found.get()
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _ask(self, spec: Spec, prompt: str, seed: int) -> Completion | Failure:
        assert self.model is not None, "asked before the start"
        up = [client for client in self._clients if client.gone is None] or self._clients
        client = min(up, key=lambda each: each.flying)
        try:
            reply = await client.ask(prompt, spec.prompt.style, self.model, spec.sampling, seed)
        except RequestError as error:
            if client.gone is not None and any(other.gone is None for other in self._clients):
                return await self._ask(spec, prompt, seed)
            self._failures[error.kind] += 1
            self._retries += len(error.tries)
            tries = f" (after {len(error.tries) + 1} attempts)" if error.tries else ""
            return Failure(error.kind, one_line(str(error)) + tries, _failures(error.tries))
        self._retries += len(reply.tries)
        if reply.model is not None:
            self._answered_as[reply.model] += 1
        return Completion(
            reply.text,
            reply.truncated,
            reply.tokens,
            reply.reasoning,
            reply.prompt_tokens,
            reply.seconds,
            _failures(reply.tries),
        )

    def problems(self, suite: str) -> list[str]:  # noqa: ARG002 - a model changes for all suites
        """That it was given up, did not stay one model, or what its site found."""
        found = self._site.problems() if self._site is not None else []
        for client in self._clients:
            if client.gone is not None:
                found.append(f"{self.name} was given up: {one_line(client.gone)}")
        if len(self._answered_as) > 1:
            models = ", ".join(one_line(f"{name!r} ({n})") for name, n in self._answered_as.items())
            found.append(f"{self.name} answered as more than one model: {models}")
        return found

    def fixed(self) -> dict[str, Any]:
        """Address, model, load, what it is sent, and what its server says of itself."""
        return {
            "base_url": self.base_url,
            "model": self.model,
            "concurrency": self.concurrency,
            "body": self._body,
            "stream": self._clients[0].stream,
            **(self._site.compared() if self._site is not None else {}),
        }

    def take_up(self, told: Mapping[str, Any]) -> None:
        """Go on from the `settings` that an earlier process of the run ended with."""
        if self._site is not None:
            self._site.take_up(told)

    def settings(self) -> dict[str, Any]:
        """Address, model, load, what was sent beside the suite's sampling, and what went wrong."""
        return {
            "kind": "server",
            "base_url": self.base_url,
            "model": self.model,
            "models_offered": self._offered,
            "concurrency": self.concurrency,
            "extra_parameters": self._clients[0].extras,
            "body": self._body,
            "stream": self._clients[0].stream,
            "limits": msgspec.structs.asdict(self._clients[0].limits),
            "retries": self._retries,
            "failures": dict(self._failures),
            "answered_as": dict(self._answered_as),
            **(self._site.settings() if self._site is not None else {}),
            "compared": self._compared(),
        }

    def _compared(self) -> dict[str, Any]:
        """What must be the same in both arms, unless it was declared to differ."""
        return {
            "model": self.model,
            "body": self._body,
            "stream": self._clients[0].stream,
            "extra_parameters": self._clients[0].extras,
            **(self._site.compared() if self._site is not None else {}),
        }

    async def close(self) -> None:
        """Drop the connections, and end the server if it is ours."""
        try:
            await self._stack.aclose()
        finally:
            if self._site is not None:
                await self._site.stop()


def _is_text(name: str) -> bool:
    """Whether it can be encoded; half a surrogate pair, which JSON can write, cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _failures(tries: tuple[RequestError, ...]) -> tuple[Failure, ...]:
    return tuple(Failure(each.kind, one_line(str(each))) for each in tries)
