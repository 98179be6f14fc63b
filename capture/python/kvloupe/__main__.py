"""python -m kvloupe capture --model DIR --prompt FILE -o trace.h5"""
from __future__ import annotations

import argparse
import sys

from . import KvloupeError, capture, read_prompt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kvloupe")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("capture", help="run a transformers model and write a trace")
    verb.add_argument("--model", required=True, help="folder or name of a transformers model")
    prompt = verb.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", help="text file; a line @@context, @@needle or @@question starts a segment")
    prompt.add_argument("--text", help="the prompt itself")
    verb.add_argument("-o", "--output", required=True)
    verb.add_argument("--block", type=int, default=128)
    verb.add_argument("--generate", type=int, default=0)
    verb.add_argument("--dtype", default="auto", choices=["auto", "f32", "bf16", "f16"])
    verb.add_argument("--store", default="f16", choices=["f16", "f32"])
    verb.add_argument("--device", default="cpu")
    words = verb.parse_args(sys.argv[2:]) if sys.argv[1:2] == ["capture"] else parser.parse_args()
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        kinds = {"auto": "auto", "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
        model = AutoModelForCausalLM.from_pretrained(words.model, dtype=kinds[words.dtype]).to(words.device).eval()
        tokenizer = AutoTokenizer.from_pretrained(words.model)
        text = read_prompt(words.prompt) if words.prompt else words.text
        capture(model, tokenizer, text, words.output, block=words.block, generate=words.generate, store=words.store)
    except (KvloupeError, OSError, ValueError) as error:
        print(f"kvloupe: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
