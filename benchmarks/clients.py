"""What asking 1,319 questions costs beside sgl-eval, lm-evaluation-harness and inspect_ai.

    python benchmarks/clients.py --data gsm8k=PATH/test.jsonl
        [--harness sgl-eval=VENV] [--harness lm-eval=VENV] [--harness inspect_ai=VENV]

Every client asks the same server, a process of its own that answers after 50 ms, the same
questions in the same minutes. Start-up is what the same command takes for one question; net is
what is left of a question. Ours asks two arms and writes its page; what grading, judging and the
page take is told apart. VENV is an environment that holds sgl-eval==0.1.3, lm-eval[api]==0.4.13 or
inspect-ai==0.3.285 with openai; the first and the last want different versions of openai.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve()
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
TEXT = "6 times 3 is 18, so \\boxed{18}\n#### 18"
LM_EVAL_TASK = """
task: gsm8k_local
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}, train: {shots}}}}}
output_type: generate_until
test_split: test
training_split: train
fewshot_split: train
num_fewshot: 5
fewshot_config: {{sampler: first_n}}
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["Question:"], do_sample: false, temperature: 0.0, max_gen_toks: 512}}
filter_list:
  - name: strict-match
    filter:
      - {{function: regex, regex_pattern: "#### (-?[0-9.,]+)"}}
      - {{function: take_first}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
INSPECT_TASK = """
import json
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate

@task
def gsm8k_local():
    rows = [json.loads(line) for line in open({rows!r})]
    samples = [Sample(input=row["prompt"], target=row["target"]) for row in rows]
    return Task(dataset=MemoryDataset(samples), solver=generate(), scorer=match(numeric=True))
"""


@dataclass(frozen=True)
class Cost:
    """What one process and its children took: seconds and MB."""

    cpu: float
    wall: float
    memory: float


def serve(delay_s: float) -> None:
    """Answer every question after `delay_s`, at a port that is printed."""
    count = 0

    class Answering(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self._transport = transport
            self._rest = b""

        def data_received(self, data: bytes) -> None:
            self._rest += data
            while (end := self._rest.find(b"\r\n\r\n")) >= 0:
                found = re.search(rb"(?i)content-length: *(\d+)", self._rest[:end])
                size = end + 4 + (int(found[1]) if found else 0)
                if len(self._rest) < size:
                    return
                asked, self._rest = self._rest[:size], self._rest[size:]
                self._answer(asked)

        def _answer(self, asked: bytes) -> None:
            nonlocal count
            if asked.startswith(b"GET /count"):
                self._transport.write(_answer({"count": count}))
            elif asked.startswith(b"GET"):
                self._transport.write(LIST)
            else:
                count += 1
                body = CHAT if asked.startswith(b"POST /v1/chat") else COMPLETION
                asyncio.get_running_loop().call_later(delay_s, self._transport.write, body)

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(
            Answering, "127.0.0.1", 0, backlog=4096
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(forever())


def _answer(document: dict[str, Any]) -> bytes:
    content = json.dumps(document).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    return head.encode() + b"\r\n\r\n" + content


_USAGE = {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920}
_ABOUT = {"id": "c-1", "created": 1, "model": "tiny", "usage": _USAGE}
_END = {"index": 0, "finish_reason": "stop"}
LIST = _answer({"object": "list", "data": [{"id": "tiny", "object": "model"}]})
CHAT = _answer(
    {
        **_ABOUT,
        "object": "chat.completion",
        "choices": [{**_END, "message": {"role": "assistant", "content": TEXT}}],
    }
)
COMPLETION = _answer({**_ABOUT, "object": "text_completion", "choices": [{**_END, "text": TEXT}]})


@contextmanager
def server(delay_s: float) -> Iterator[str]:
    """A server in a process of its own; its address."""
    words = [sys.executable, str(HERE), "--serve", str(delay_s)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()


def cost(words: Sequence[str], folder: Path, **environment: str) -> Cost:
    """Run a command to its end, and take what it used."""
    began = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - the commands of this file
            words,
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, **THREADS, **environment},
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in ({0, 1, 3} if "--inside" in words else {0}):  # verdicts of ours
        tail = (folder / "log").read_text(errors="replace")[-800:]
        raise SystemExit(f"{words[0]} ended by {process.returncode}: {tail}")
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024)


@dataclass(frozen=True)
class Work:
    """What every client is given."""

    urls: tuple[str, str]
    data: str
    rows: Path
    flying: int
    size: int

    def count(self) -> int:
        """Questions that the servers were asked so far."""
        found = 0
        for url in self.urls:
            address = f"{url.removesuffix('/v1')}/count"
            with urllib.request.urlopen(address) as answer:  # noqa: S310 - our own server
                found += json.load(answer)["count"]
        return found


def ours(_: Path, work: Work, size: int) -> list[str]:
    """Both arms, and the page."""
    words = [sys.executable, str(HERE), "--inside", "--suite", "gsm8k", "--data", work.data]
    words += ["--arm", f"base={work.urls[0]}", "--arm", f"pr={work.urls[1]}", "--no-early-stop"]
    return [*words, "--concurrency", str(work.flying), "--limit", str(size), "--out", "run"]


def sgl_eval(bin_: Path, work: Work, size: int) -> list[str]:
    """Chat, the prompts as its problems."""
    return [
        *(str(bin_ / "sgl-eval"), "run", "gsm8k", "--base-url", work.urls[0], "--model", "tiny"),
        *("--api-key", "none", "--num-threads", str(work.flying), "--num-examples", str(size)),
        *("--max-tokens", "512", "--from-dataset", str(work.rows), "--out-dir", "run"),
    ]


def lm_eval(bin_: Path, work: Work, size: int) -> list[str]:
    """Completions, five examples, as its own gsm8k."""
    task = LM_EVAL_TASK.format(rows=work.rows, shots=work.rows.with_name("shots.jsonl"))
    work.rows.with_name("gsm8k_local.yaml").write_text(task)
    about = f"model=tiny,base_url={work.urls[0]}/completions,num_concurrent={work.flying}"
    return [
        *(str(bin_ / "lm_eval"), "--model", "local-completions", "--model_args"),
        f"{about},tokenizer_backend=None,tokenized_requests=False",
        *("--include_path", str(work.rows.parent), "--tasks", "gsm8k_local"),
        *("--limit", str(size), "--output_path", "run", "--log_samples"),
    ]


def inspect_ai(bin_: Path, work: Work, size: int) -> list[str]:
    """Chat."""
    work.rows.with_name("inspect_task.py").write_text(INSPECT_TASK.format(rows=str(work.rows)))
    return [
        # it takes no absolute path; it runs in a folder beside
        *(str(bin_ / "inspect"), "eval", "../inspect_task.py"),
        *("--model", "openai-api/local/tiny"),
        *("--model-base-url", work.urls[0], "--max-connections", str(work.flying)),
        *("--max-samples", str(work.flying), "--limit", str(size), "--log-dir", "run"),
        *("--display", "none"),
    ]


CLIENTS = {
    "kernelproof": ours,
    "sgl-eval": sgl_eval,
    "lm-eval": lm_eval,
    "inspect_ai": inspect_ai,
}


def inside(words: list[str]) -> None:
    """`python -m verify.evals` with a clock: what starting, asking, grading and judging take."""
    sys.path.insert(0, str(ROOT))
    from verify import answers, runner  # noqa: PLC0415 - its import is part of the start
    from verify.command import run  # noqa: PLC0415 - likewise
    from verify.evals import command  # noqa: PLC0415 - likewise

    clock: dict[str, Any] = {"grading": 0.0, "memory": []}
    ask, grade = runner.run, answers.grade

    def graded(*given: Any, **more: Any) -> Any:
        began = time.process_time()
        found = grade(*given, **more)
        clock["grading"] += time.process_time() - began
        return found

    async def asked(*given: Any) -> Any:
        *others, heard = given
        clock["start"], clock["start_wall"] = time.process_time(), time.time()
        count = 0

        def counted(record: Any) -> None:
            nonlocal count
            heard(record)
            count += 1
            if count % 200 == 0:
                clock["memory"].append(_resident())

        try:
            return await ask(*others, counted)
        finally:
            clock["count"], clock["asked"] = count, time.process_time()

    runner.run, answers.grade = asked, graded  # type: ignore[assignment] # timed stand-ins
    sys.argv = ["verify.evals", *words]
    try:
        run(command, "verify.evals")
    finally:
        Path("clock.json").write_text(json.dumps({**clock, "end": time.process_time()}))


def _resident() -> float:
    """MB of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def prompts(data: str, path: Path) -> int:
    """Write the questions of the suite as every harness can read them; their number."""
    sys.path.insert(0, str(ROOT))
    from evals.suite import load  # noqa: PLC0415 - what the server's process does without

    source = Path(data.partition("=")[2])
    lines = source.read_text(encoding="utf-8").splitlines()
    path.with_name("shots.jsonl").write_text("\n".join(lines[:5]) + "\n")
    items = load("gsm8k").questions(source).items
    with path.open("w") as file:
        for item in items:
            row = {"prompt": item.prompt, "target": item.target, **json.loads(lines[item.row])}
            # under the names that sgl-eval reads
            more = {"id": item.id, "problem": item.prompt, "expected_answer": item.target}
            file.write(json.dumps({**row, **more}) + "\n")
    return len(items)


def measure(options: argparse.Namespace) -> None:
    """Every client for one question and for all, and the table."""
    venvs = dict(word.partition("=")[::2] for word in options.harness)
    if unknown := venvs.keys() - CLIENTS.keys():
        raise SystemExit(f"no client {', '.join(unknown)}; there are {', '.join(CLIENTS)}")
    with (
        tempfile.TemporaryDirectory() as temporary,
        server(options.delay) as base,
        server(options.delay) as pr,
    ):
        folder = Path(temporary)
        rows = folder / "rows.jsonl"
        size = prompts(options.data, rows)
        work = Work((base, pr), options.data, rows, options.in_flight, size)
        print(f"{size} questions, {options.in_flight} in flight, {1000 * options.delay:g} ms")
        print("CPU of the client:   start  a question  net of start   wall s    MB  questions")
        for name in CLIENTS:
            if name == "kernelproof" or name in venvs:
                _row(name, Path(venvs.get(name, ".")) / "bin", work, folder)


def _row(name: str, bin_: Path, work: Work, folder: Path) -> None:
    about = {"LOCAL_API_KEY": "none", "OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1"}
    costs = []
    for size in (1, 1, work.size):  # the first fills caches of files
        before = work.count()
        place = Path(tempfile.mkdtemp(dir=folder))
        costs.append(cost(CLIENTS[name](bin_, work, size), place, **about))
        asked = work.count() - before
    _, start, whole = costs
    raw = 1000 * whole.cpu / max(1, asked)
    net = 1000 * (whole.cpu - start.cpu) / max(1, asked)
    print(
        f"{name:18} {start.cpu:5.1f} s  {raw:7.2f} ms  {net:9.2f} ms  {whole.wall:7.1f}  "
        f"{whole.memory:4.0f}  {asked:9}",
        flush=True,
    )
    if name == "kernelproof":
        _apart(json.loads((place / "clock.json").read_text()))


def _apart(clock: dict[str, Any]) -> None:
    """What ours took where."""
    asking = clock["asked"] - clock["start"] - clock["grading"]
    parts = {
        "started": clock["start"],
        "asked, both arms": asking,
        "graded": clock["grading"],
        "judged and drawn": clock["end"] - clock["asked"],
    }
    print("  " + "; ".join(f"{name} {seconds:.2f} s" for name, seconds in parts.items()))
    memory = clock["memory"]
    print(
        f"  {1000 * asking / clock['count']:.2f} ms a request for client, store and progress; "
        f"{memory[0]:.0f} MB after 200 answers, {memory[-1]:.0f} MB after {clock['count']}"
    )


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    if sys.argv[1:2] == ["--serve"]:
        serve(float(sys.argv[2]))
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", required=True, help="gsm8k=PATH of the pinned test.jsonl")
    parser.add_argument(
        "--harness", action="append", default=[], metavar="NAME=VENV", help="another client"
    )
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds to an answer")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
