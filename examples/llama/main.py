"""The same in Python: `python main.py FOLDER "Once upon a time" [--tokens 100] [--ids]`, greedy, by transformers.

`python main.py --make FOLDER [--hidden 64]` writes a small folder with random weights.
"""

import argparse
import time

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM


def make(folder, hidden, layers, vocabulary):
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 16,
        num_key_value_heads=max(1, hidden // 32),
        vocab_size=vocabulary,
        max_position_embeddings=256,
        eos_token_id=None,
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(folder, max_shard_size=4 * hidden * vocabulary)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("prompt", nargs="?")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--ids", action="store_true")
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=256)
    args = parser.parse_args()
    if args.make:
        make(args.folder, args.hidden, args.layers, args.vocabulary)
        return
    start = time.perf_counter()
    model = LlamaForCausalLM.from_pretrained(args.folder, dtype=torch.float32).eval()
    loaded = time.perf_counter() - start
    if args.ids:
        prompt = torch.tensor([[int(t) for t in args.prompt.split(",")]])
    else:
        tokenizer = AutoTokenizer.from_pretrained(args.folder)
        prompt = tokenizer(args.prompt, return_tensors="pt").input_ids
    start = time.perf_counter()
    with torch.no_grad():
        out = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=args.tokens, do_sample=False, pad_token_id=0
        )
    took = time.perf_counter() - start
    new = out[0, prompt.shape[1] :].tolist()
    print(*new) if args.ids else print(tokenizer.decode(out[0], skip_special_tokens=True))
    print(f"loaded in {loaded:.2f} s; {len(new)} tokens, {took / max(1, len(new)) * 1e3:.1f} ms each", file=__import__("sys").stderr)


if __name__ == "__main__":
    main()
