import asyncio
import hashlib

import msgspec
import pytest

from evals.suite import load
from verify.command import UserError
from verify.probe import Probe, twice_begun
from verify.site import Site

VLLM = {
    "/v1/models": {
        "data": [{"id": "m", "max_model_len": 600, "created": 5, "permission": [{"id": "x"}]}]
    },
    "/version": {"version": "0.32"},
    "/tokenize": lambda body: {
        "tokens": [1, *([1] if "messages" in body else []), *range(9, 9 + len(str(body)) // 4)]
    },
    "/reset_prefix_cache": "",
}
SGLANG = {
    "/v1/models": {"data": [{"id": "m"}]},
    "/get_server_info": {
        "attention_backend": "fa3",
        "api_key": "sk-not-ours",
        "context_length": 700,
        "port": 8000,
        "random_seed": 12,
        "max_total_num_tokens": 99,
        "internal_states": [{"avg_spec_accept_length": 2.0}, {"avg_spec_accept_length": 3.0}],
    },
    "/flush_cache": "flushed",
}
LLAMA = {
    "/v1/models": {"data": [{"id": "m"}]},
    "/props": {
        "chat_template": "{{ bos }}",
        "build_info": "b1",
        "media_marker": "random",
        "default_generation_settings": {"n_ctx": 800},
    },
    "/apply-template": lambda body: {"prompt": f"<s>{body['messages'][0]['content']}"},
    "/tokenize": lambda body: {
        "tokens": [*([1] * body["add_special"]), *([1] * body["content"].startswith("<s>")), 7]
    },
}
NOTHING = {"/v1/models": {"data": [{"id": "m"}]}}
HOSTILE = {
    "/v1/models": {"data": [{"id": "m", "max_model_len": "many"}]},
    "/server_info": ["not", "an", "object"],
    "/props": "no JSON",
    "/version": {"version": "1\x1b[31m\n2" + "x" * 1000},
    "/tokenize": {"tokens": "many"},
}


@pytest.fixture
def probed(fake_server):
    """Do something with a probe of a server that has those pages."""

    def probe(pages, act):
        url = fake_server(pages=pages).url

        async def go():
            async with Probe(url) as found:
                return await found.look(), await act(found)

        return asyncio.run(go())

    return probe


async def _facts(probe):
    return probe.context("m"), probe.acceptance(), await probe.flush()


@pytest.mark.parametrize(
    ("pages", "facts"),
    [
        (VLLM, (600, None, True)),
        (SGLANG, (700, 2.5, True)),
        (LLAMA, (800, None, False)),
        (NOTHING, (None, None, False)),
        (HOSTILE, (None, None, False)),
    ],
)
def test_what_servers_say(probed, pages, facts):
    assert probed(pages, _facts)[1] == facts


def test_what_passes_and_what_is_secret_is_no_setting(probed):
    assert probed(VLLM, _facts)[0] == {
        "models": {"data": [{"id": "m", "max_model_len": 600}]},
        "version": {"version": "0.32"},
    }
    assert probed(SGLANG, _facts)[0]["server_info"] == {
        "attention_backend": "fa3",
        "api_key": "***",
        "context_length": 700,
    }
    sha256 = hashlib.sha256(b"{{ bos }}").hexdigest()
    assert probed(LLAMA, _facts)[0]["props"] == {
        "chat_template_sha256": sha256,
        "build_info": "b1",
    }


@pytest.mark.parametrize(
    ("pages", "style", "ids"),
    [
        (VLLM, "completion", [1, 9, 10]),
        (VLLM, "chat", [1, 1, 9]),
        (LLAMA, "completion", [1, 7]),
        (LLAMA, "chat", [1, 1, 7]),
        (SGLANG, "chat", None),
        (NOTHING, "completion", None),
        (HOSTILE, "completion", None),
    ],
)
def test_tokens_of_a_prompt_as_the_server_reads_it(probed, pages, style, ids):
    found = probed(pages, lambda probe: probe.tokens("p", style, "m"))[1]
    assert found == ids if ids is None else found[:3] == ids
    assert twice_begun(found) == (style == "chat" and ids is not None)


@pytest.mark.parametrize("ids", [None, [], [1], [1, 2], [2, 1, 1]])
def test_one_bos_is_right(ids):
    assert not twice_begun(ids)


@pytest.fixture
def site(fake_server, tmp_path):
    """Start, look at and stop a site whose server has those pages; `path` may name its {root}."""

    def run(pages, path=None, **options):
        url = fake_server(pages=pages).url
        path = {k: v.format(root=url.removesuffix("/v1")) for k, v in (path or {}).items()}
        options = {"headers": {}, "logs": tmp_path, "path": path, **options}
        one = Site("pr", [url], **options)

        async def go():
            try:
                await one.start()
                await one.look("m")
                await one.flush()
            finally:
                await one.stop()

        asyncio.run(go())
        return one

    return run


def test_a_context_too_short_is_told_before_anything_is_asked(site):
    spec = load("gsm8k").spec
    assert spec.sampling.max_tokens == 512
    fits = site(VLLM, longest={"gsm8k": (spec, "p")})
    assert fits.settings()["longest_prompt_tokens"]["gsm8k"] < 600 - 512
    with pytest.raises(UserError, match=r"suite gsm8k needs up to \d+ tokens.* context of 600"):
        site(VLLM, longest={"gsm8k": (spec, "p" * 800)})


@pytest.mark.parametrize("pages", [VLLM, LLAMA])
def test_two_bos_are_told_before_anything_is_asked(site, pages):
    spec = load("gsm8k_chat").spec
    short = msgspec.structs.replace(
        spec, sampling=msgspec.structs.replace(spec.sampling, max_tokens=9)
    )
    with pytest.raises(UserError, match="begin with token 1 twice"):
        site(pages, longest={"gsm8k_chat": (short, "p")})


def test_the_manifest_has_what_the_server_said(site):
    found = site(SGLANG).settings()
    assert found["context"] == 700
    assert found["acceptance_length"] == 2.5
    assert found["cache_flushes"] == 1
    assert found["servers"][0]["says"]["server_info"]["attention_backend"] == "fa3"
    hostile = site(HOSTILE).settings()
    version = hostile["servers"][0]["says"]["version"]["version"]
    assert version.startswith("1\ufffd[31m 2xxx")
    assert len(version) <= 400


def test_keys_in_what_a_server_says_are_hidden(site):
    pages = {**NOTHING, "/version": {"version": "asked with sk-12345678", "sk-12345678": 1}}
    found = site(pages, headers={"Authorization": "Bearer sk-12345678"})
    assert "sk-12345678" not in str(found.settings()) + str(found.compared())
    assert found.settings()["servers"][0]["says"]["version"] == {
        "version": "asked with ***",
        "***": 1,
    }


def test_a_source_that_changes_is_a_problem(site, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.py").write_text("1")
    same = site(NOTHING, source=source)
    assert same.problems() == []
    assert len(set(same.settings()["source_sha256"].values())) == 1
    pages = {**NOTHING, "/flush_cache": lambda _: (source / "a.py").write_text("2") and "flushed"}
    changed = site(pages, source=source)
    assert changed.problems() == [f"the source of pr, {source}, changed during the run"]
    with pytest.raises(UserError, match="cannot be read"):
        site(NOTHING, source=tmp_path / "absent")


# at the beginning and the end of two starts
@pytest.mark.parametrize("says", ["1111", "1112", "1122", "1222"])
def test_settings_that_change_during_a_run_are_a_problem(fake_server, tmp_path, says):
    answers = iter(says)
    pages = {**NOTHING, "/version": lambda _: {"version": next(answers)}}
    url = fake_server(pages=pages).url
    one = Site("pr", [url], headers={}, logs=tmp_path)

    async def go():
        for _ in range(2):
            await one.start()
            await one.look("m")
            await one.stop()
            await one.stop()  # a second time does nothing

    asyncio.run(go())
    changed = ["pr changed during the run: version.version"]
    assert one.problems() == ([] if says == "1111" else changed)


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_servers_of_an_arm_must_be_alike(fake_server, tmp_path, version):
    pages = [{**NOTHING, "/version": {"version": each}} for each in ("1", "1", version)]
    urls = [fake_server(pages=each).url for each in pages]
    one = Site("pr", urls, headers={}, logs=tmp_path)

    async def go():
        await one.start()
        await one.look("m")
        await one.stop()

    asyncio.run(go())
    told = f"servers of pr are not alike: {urls[2]} has another version.version than {urls[0]}"
    assert one.problems() == ([] if version == "1" else [told])


def test_what_is_seen_of_paths_is_counted(site):
    counts = iter([3, 8])
    pages = {**NOTHING, "/metrics": lambda _: f'fused_total{{rank="0"}} {next(counts)}\n'}
    nowhere = "http://127.0.0.1:9/metrics"
    seen = site(pages, path={"fused": "{root}/metrics", "other": nowhere})
    counted = {name: found["count"] for name, found in seen.settings()["path_evidence"].items()}
    assert counted == {"fused": 5, "other": 0}


def test_what_an_earlier_process_saw_is_not_forgotten(site, tmp_path):
    nowhere = "http://127.0.0.1:9/metrics"
    earlier = {
        "problems": ["pr changed during the run: says"],
        "path_evidence": {"fused": {"place": nowhere, "count": 2.0}},
        "source_sha256": {"before": "another", "after": "another"},
    }
    found = site(NOTHING, path={"fused": nowhere}, source=tmp_path)
    assert found.problems() == []
    found.take_up(earlier)
    assert found.settings()["path_evidence"]["fused"]["count"] == 2
    assert found.problems() == [
        "pr changed during the run: says",
        f"the source of pr, {tmp_path}, changed during the run",
    ]
    again = site(NOTHING, path={"fused": nowhere}, source=tmp_path)
    again.take_up(found.settings())
    assert again.problems() == found.problems()
