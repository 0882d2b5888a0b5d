"""What a server says of itself: model, settings, limits, templates, tokens of a prompt."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

PAGES = {
    "models": ("v1/models",),
    "server_info": ("server_info", "get_server_info"),  # sglang
    "version": ("version",),  # vLLM
    "props": ("props",),  # llama.cpp
}
"""Where servers describe themselves; of several addresses the first that answers."""
_LARGEST = 1 << 22
_TIMEOUT_S = 10  # a server that lets unknown pages hang costs no more than twice that
# Not a setting: another at every start or look. `internal_states` holds what we take by itself.
_PASSING = frozenset(
    {"created", "permission", "internal_states", "default_generation_settings", "random_seed",
     "port", "nccl_port", "dist_init_addr", "host", "max_total_num_tokens",
     "media_marker", "is_sleeping"}
)  # fmt: skip
SECRET = re.compile(r"(?i)api.?key|(auth|access|hf|bearer).?token|secret|passw|authori|credential")
"""Names of settings whose values are nobody's business."""


class Probe:
    """Looks at one server, beside the questions; an asynchronous context manager.

    Args:
        base_url: its address, ending in /v1 as a rule.
        headers: sent with every request.
    """

    def __init__(self, base_url: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(base_url)
        self.root = f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/v1')}"
        self._headers = dict(headers or {})
        self._session: aiohttp.ClientSession | None = None
        self._pages: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers=self._headers, timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def look(self) -> dict[str, Any]:
        """All that it says of its settings, page by page, without what passes and what is secret.

        The text of a chat template is replaced by its SHA-256.
        """
        pages = await asyncio.gather(*(self._first(places) for places in PAGES.values()))
        self._pages = {
            name: page for name, page in zip(PAGES, pages, strict=True) if page is not None
        }
        return {name: _settings(page) for name, page in self._pages.items()}

    async def _first(self, places: Sequence[str]) -> Any:
        for place in places:
            if (page := await self._json("GET", place)) is not None:
                return page
        return None

    def context(self, model: str | None) -> int | None:
        """Tokens that a prompt and its answer may have together, as last looked at."""
        models = _get(self._pages, "models", "data") or []
        of_model = [each for each in models if _get(each, "id") == model]
        found = (
            _get(of_model[0] if of_model else None, "max_model_len"),
            _get(self._pages, "server_info", "context_length"),
            _get(self._pages, "props", "default_generation_settings", "n_ctx"),
        )
        return next((each for each in found if isinstance(each, int) and each > 0), None)

    def acceptance(self) -> float | None:
        """Tokens accepted a step of speculative decoding, as last looked at."""
        states = _get(self._pages, "server_info", "internal_states")
        lengths = [
            length
            for state in (states if isinstance(states, list) else [])
            if isinstance(length := _get(state, "avg_spec_accept_length"), int | float)
        ]
        return sum(lengths) / len(lengths) if lengths else None

    async def tokens(
        self, prompt: str, style: Literal["completion", "chat"], model: str | None
    ) -> list[int] | None:
        """Ids of a prompt as the server would read it, its template and special tokens included."""
        if "props" in self._pages:
            return await self._tokens_of_llama(prompt, style)
        asked: dict[str, Any] = (
            {"prompt": prompt}
            if style == "completion"
            else {"messages": [{"role": "user", "content": prompt}]}
        )
        return _ids(await self._json("POST", "tokenize", {"model": model, **asked}))

    async def _tokens_of_llama(self, prompt: str, style: str) -> list[int] | None:
        if style == "chat":
            messages = [{"role": "user", "content": prompt}]
            page = await self._json("POST", "apply-template", {"messages": messages})
            rendered = _get(page, "prompt")
            if not isinstance(rendered, str):
                return None
            prompt = rendered
        asked = {"content": prompt, "add_special": True, "parse_special": True}
        return _ids(await self._json("POST", "tokenize", asked))

    async def flush(self) -> bool:
        """Empty its prefix cache, if it knows how to."""
        for place in ("flush_cache", "reset_prefix_cache"):  # sglang, vLLM
            if await self._page("POST", place, None) is not None:
                return True
        return False

    async def text(self, url: str) -> str | None:
        """Any page, if it is there."""
        page = await self._page("GET", url, None)
        return None if page is None else page.decode("utf-8", "replace")

    async def _json(self, method: str, place: str, body: Any = None) -> Any:
        page = await self._page(method, place, body)
        try:
            return None if page is None else json.loads(page)
        except (ValueError, RecursionError):
            return None

    async def _page(self, method: str, place: str, body: Any) -> bytes | None:
        assert self._session is not None, "used outside its context"
        url = place if "://" in place else f"{self.root}/{place}"
        try:
            async with self._session.request(
                method, url, json=body, allow_redirects=False
            ) as response:
                content = bytearray()
                async for chunk in response.content.iter_any():
                    content += chunk
                    if len(content) > _LARGEST:
                        return None
                return bytes(content) if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None


def twice_begun(ids: list[int] | None) -> bool:
    """Whether a prompt begins with two of the same token: a template's BOS and a tokenizer's."""
    return ids is not None and len(ids) > 1 and ids[0] == ids[1]


def _settings(value: Any) -> Any:
    """A page of settings, cleaned."""
    if isinstance(value, list):
        return [_settings(each) for each in value]
    if not isinstance(value, dict):
        return value
    cleaned = {}
    for name, each in value.items():
        if name in _PASSING:
            continue
        if SECRET.search(name) and isinstance(each, str):
            cleaned[name] = "***"
        elif name == "chat_template" and isinstance(each, str):
            cleaned["chat_template_sha256"] = hashlib.sha256(each.encode()).hexdigest()
        else:
            cleaned[name] = _settings(each)
    return cleaned


def _get(value: Any, *names: str) -> Any:
    """A value inside of what a server said, or None: servers say anything."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _ids(page: Any) -> list[int] | None:
    found = _get(page, "tokens")
    return found if isinstance(found, list) and all(type(n) is int for n in found) else None
