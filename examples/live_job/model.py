"""Makes the job's model: a Qwen2 of 3 M parameters with random weights, and a tokenizer trained on Python's library.

usage (in the job's own environment): python -m examples.live_job.model FOLDER
"""

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

VOCABULARY = 2048
TEXTS = 200
"""Files of the standard library that the tokenizer learns from."""


def texts() -> Iterator[str]:
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:TEXTS]:
        yield path.read_text(errors="replace")


def make(folder: Path) -> None:
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(texts(), vocab_size=VOCABULARY, special_tokens=["<|endoftext|>"], show_progress=False)
    end = "<|endoftext|>"
    PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, eos_token=end, pad_token=end).save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=384,
        intermediate_size=768,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
