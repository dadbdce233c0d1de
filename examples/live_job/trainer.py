"""The trainer: one GRPO update per batch, in a process of its own. It takes a batch from a pipe and says how it went.

loss = - mean over model tokens of min(r A, clip(r, 1 - e, 1 + e) A),   r = pi_now / pi_when_generated
A    = (reward - mean of its group) / (standard deviation of its group + 1e-4)
"""

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import Qwen2ForCausalLM

from examples.live_job.batch import Batch, Done, Sample

CLIP = 0.2


def serve(pipe: Connection, folder: Path, learning_rate: float) -> None:
    """Until the pipe closes. Weights are saved to `folder` after each update, whole or not at all."""
    model = Qwen2ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    pipe.send("ready")
    while True:
        try:
            told: Batch = pipe.recv()
        except EOFError:
            return
        torch.set_num_threads(told.threads)
        began = time.monotonic()
        entropy, norm = update(model, optimizer, told.samples)
        trained = time.monotonic()
        save(model, folder)
        pipe.send(Done(trained - began, time.monotonic() - trained, entropy, norm))


def update(model: Any, optimizer: Any, batch: list[Sample], rows: int = 8) -> tuple[float, float]:
    """One optimizer step over the batch, in minibatches of `rows` samples of similar length. Entropy, gradient norm."""
    optimizer.zero_grad()
    total = sum(sum(sample.chosen) for sample in batch)
    entropy = 0.0
    ordered = sorted(batch, key=lambda sample: len(sample.tokens))
    for part in (ordered[i : i + rows] for i in range(0, len(ordered), rows)):
        width = max(len(sample.tokens) for sample in part)
        padded = torch.tensor([s.tokens + [0] * (width - len(s.tokens)) for s in part])
        chosen = torch.tensor([s.chosen + [False] * (width - len(s.chosen)) for s in part])[:, 1:]
        old = torch.tensor([s.logprobs + [0.0] * (width - len(s.logprobs)) for s in part])[:, 1:]
        advantage = torch.tensor([s.advantage for s in part])[:, None]
        hidden = model.model(padded).last_hidden_state[:, :-1][chosen]
        logp = torch.log_softmax(model.lm_head(hidden).float(), dim=-1)
        now = logp.gather(1, padded[:, 1:][chosen][:, None])[:, 0]
        ratio = torch.exp(now - old[chosen])
        gain = advantage.expand_as(chosen)[chosen]
        loss = -torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).sum() / total
        loss.backward()
        entropy -= float((logp.detach().exp() * logp.detach()).sum()) / total
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    optimizer.step()
    return entropy, norm


def save(model: Any, folder: Path) -> None:
    weights = {name: p.detach().bfloat16().contiguous() for name, p in model.named_parameters()}
    save_file(weights, folder / "model.safetensors.new", metadata={"format": "pt"})
    os.rename(folder / "model.safetensors.new", folder / "model.safetensors")
