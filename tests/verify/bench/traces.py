"""Chrome traces as torch's profiler writes them, small: one rank of a server, step by step."""

from __future__ import annotations

import gzip
import json

ROPE = "void (anonymous namespace)::deepseek_rope_kernel<true, true, long>(FusedQKRopeParams)"
FORWARD_ROPE = ROPE.replace("<true, true", "<true, false")
GEMM = "nvjet_tst_64x8_64x16_4x1_v_bz_TNT"
QUANT = "void tensorrt_llm::kernels::quantize_with_block_size<(tensorrt_llm::X)2, __nv_bfloat16>"
FUSED = "void (anonymous namespace)::wo_a_fused_kernel<Trait<16, 2>, long>(CUtensorMap)"
CHAIN = (ROPE, GEMM, QUANT)


def launches(names, start=0.0, stream=7, device=0):
    for number, name in enumerate(names):
        yield {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": device,
            "tid": stream,
            "ts": start + number,
            "dur": 0.5,
            "args": {"device": device, "stream": stream, "correlation": number, "grid": [1, 1, 1]},
        }


def note(name, start, length, device=0, cat="gpu_user_annotation"):
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": device,
        "tid": 7,
        "ts": start,
        "dur": length,
        "args": {},
    }


def document(events):
    around = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": 0,
            "tid": 0,
            "ts": 1,
            "args": {"name": "python"},
        },
        {"ph": "X", "cat": "cpu_op", "name": "aten::bmm", "pid": 9, "tid": 9, "ts": 0, "dur": 1},
        {"ph": "i", "cat": "kernel", "name": "an instant", "pid": 9, "tid": 9, "ts": 0, "s": "g"},
    ]
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [*around, *events]}


def write(path, events):
    content = json.dumps(document(events)).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def server(steps=20, layers=43, fused=0, between=2):
    """One rank: in each step each layer's call, the first `fused` layers by the fused kernel."""
    moment, events = 0.0, []
    for _ in range(steps):
        begin = moment
        for layer in range(layers):
            call = (FUSED,) if layer < fused else CHAIN
            names = [FORWARD_ROPE, *call, *["elementwise"] * between]
            events += launches(names, moment)
            moment += len(names)
        events.append(note("execute_context_0(0)_generation_24(24)", begin, moment - begin))
    return events
