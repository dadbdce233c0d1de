"""A prefill and a decode engine, for correctness only: one reads prompts, one answers; KV blocks go through files.

Each prompt is sent to the prefill engine for one token, then to the decode engine, which finds its blocks and computes
the rest. What both say of themselves is kept as `prefill-1.prom`, `prefill-2.prom`, ... : before and after.

usage: python -m examples.live_job.split FOLDER [--venv VENV] [--requests 12]
"""

import argparse
import json
import random
import sys
import urllib.request
from pathlib import Path

from examples.live_job.live import exit_code
from examples.live_job.stage import HERE, Stage, free_ports, staged

ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
PROMPT_TOKENS, ANSWER_TOKENS = 630, 24


def transfer(role: str, folder: Path) -> list[str]:
    """vLLM's own example connector: it keeps KV in files."""
    config = {
        "kv_connector": "ExampleConnector",
        "kv_role": role,
        "kv_connector_extra_config": {"shared_storage_path": str(folder)},
    }
    return ["--kv-transfer-config", json.dumps(config)]


def answered(port: int, prompt: list[int], tokens: int) -> list[int]:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0.0}
    body |= {"return_token_ids": True, "ignore_eos": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120.0) as answer:
        return list(json.load(answer)["choices"][0]["token_ids"])


def kept(stage: Stage, name: str, port: int, number: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30.0) as answer:
        (stage.folder / f"{name}-{number}.prom").write_bytes(answer.read())


def same_answers(stage: Stage, requests: int) -> int:
    """How many answers are the same with and without the split."""
    model = stage.model()
    stage.engine_ports = free_ports(3)
    stage.groups = [stage.slices(name) for name in (*ROLES, "alone")]
    for i in range(3):
        role = list(ROLES.values())[i : i + 1]
        stage.start_engine(i, model, transfer(role[0], stage.folder / "kv") if role else [])
    for i in range(3):
        stage.await_engine(i)
    draw, same = random.Random(7), 0
    prefill, decode, alone = stage.engine_ports
    for number in range(requests):
        if number in (requests // 2, requests - 1):
            for name, port in zip(ROLES, stage.engine_ports, strict=False):
                kept(stage, name, port, 1 if number < requests - 1 else 2)
        prompt = [draw.randrange(1, 2048) for _ in range(PROMPT_TOKENS)]
        answered(prefill, prompt, 1)
        same += answered(decode, prompt, ANSWER_TOKENS) == answered(alone, prompt, ANSWER_TOKENS)
    return same


def played(folder: Path, venv: Path, requests: int) -> int:
    with staged(folder, venv) as stage:
        stage.demand()
        same = same_answers(stage, requests)
    print(f"{same} of {requests} answers are the same as those of one engine that does both")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.live_job.split", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--venv", type=Path, default=HERE / ".venv")
    parser.add_argument("--requests", type=int, default=12)
    given = parser.parse_args()
    return exit_code(lambda: played(given.folder, given.venv, given.requests))


if __name__ == "__main__":
    sys.exit(main())
