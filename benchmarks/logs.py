"""Logs of any size, made line by line from a real console line with other numbers, between lines as jobs print them."""

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

REAL_LINE = Path(__file__).parent / "data" / "verl-step.log"
VARIANTS = 200
"""Prepared lines that are used in turn: making each one anew would measure the generator."""

SECONDS = re.compile(r"(?P<key>(?:timing_s/\w+|perf/time_per_step|response_length/mean):)(?P<number>[\d.e-]+)")

CHATTER = (
    "(WorkerDict pid={pid}) INFO 08-27 11:{m:02d}:{s:02d} [loggers.py:116] Engine 000: Avg prompt throughput: "
    "{a}.{b} tokens/s, Avg generation throughput: {c}.{b} tokens/s, Running: {r} reqs, "
    "Waiting: 0 reqs, GPU KV cache usage: {k}.{b}%",
    "(WorkerDict pid={pid}) torch/utils/checkpoint.py:{c}: UserWarning: None of the inputs have requires_grad=True",
    "(TaskRunner pid={pid}) [prompt] How many times does the letter r occur in 'strawberry {a}'? Think step by step.",
    "(TaskRunner pid={pid}) [response] One by one: s, t, r ({r}), a, w, b, e, r, r - so the answer is {k}.",
    "Training Progress:  {k}%|####      | {r}/{c} [{m:02d}:{s:02d}<1:{s:02d}:{m:02d},  {a}.{b}s/it]",
    "(WorkerDict pid={pid}) After generate_sequences, memory allocated (GB): {a}.{b}, memory reserved (GB): {k}.{b}",
    "",
)


def console(total_bytes: int, chatter_per_metric: int, seed: int = 1) -> Iterator[bytes]:
    """Chunks of a verl console log, in step order, of about that size in all."""
    rng = Random(seed)
    before, afters = _metric_variants(rng)
    chatter = [_chatter(rng) for _ in range(VARIANTS)]
    written = 0
    for step in count(1):
        lines = [rng.choice(chatter) for _ in range(chatter_per_metric)]
        lines.append(before + str(step) + rng.choice(afters).replace("@STEP@", str(step)))
        chunk = ("\n".join(lines) + "\n").encode()
        yield chunk
        written += len(chunk)
        if written >= total_bytes:
            return


def jsonl(steps: int, seed: int = 1) -> Iterator[bytes]:
    """One prime-rl trainer row a step."""
    rng = Random(seed)
    tails = [_jsonl_tail(rng) for _ in range(VARIANTS)]
    for step in range(steps):
        yield f'{{"step": {step}, {tails[step % VARIANTS]}}}\n'.encode()


def _metric_variants(rng: Random) -> tuple[str, list[str]]:
    """What stands before the step number, and what after it."""
    before, mark, after = REAL_LINE.read_text().splitlines()[0].partition("step:1 ")
    after = " " + after.replace("training/global_step:1", "training/global_step:@STEP@")
    return before + mark[:-2], [_stretched(after, rng.uniform(0.8, 1.2)) for _ in range(VARIANTS)]


def _stretched(line: str, factor: float) -> str:
    """One factor for all seconds of a step, so that its phases still add up."""
    return SECONDS.sub(lambda found: f"{found['key']}{float(found['number']) * factor!r}", line)


def _chatter(rng: Random) -> str:
    numbers = {name: rng.randrange(10, 99) for name in "abk"}
    return rng.choice(CHATTER).format(
        pid=rng.randrange(1000, 99999), m=rng.randrange(60), s=rng.randrange(60), c=rng.randrange(1000, 9999),
        r=rng.randrange(1, 512), **numbers,
    )  # fmt: skip


def _jsonl_tail(rng: Random) -> str:
    step_s = rng.uniform(60, 90)
    wait_s, busy_s = step_s * rng.uniform(0.2, 0.4), step_s * rng.uniform(0.5, 0.55)
    return (
        f'"time/step": {step_s:.3f}, "time/wait_for_batch": {wait_s:.3f}, "time/forward_backward": {busy_s:.3f}, '
        f'"time/broadcast_weights": {rng.uniform(1, 2):.3f}, "perf/throughput": {rng.uniform(20000, 30000):.1f}'
    )
