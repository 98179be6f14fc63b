"""python -m kvloupe capture --model DIR --prompt FILE -o trace.h5"""
import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

from . import KvloupeError, KvloupeWarning, Tokenizer, __version__, read_prompt
from .engine import ask
from .external import refuse_own_input
from .prompt import block_tokens


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kvloupe", description="Traces of transformers models for kvloupe")
    parser.add_argument("--version", action="version", version=f"kvloupe {__version__}")
    verb = parser.add_subparsers(dest="verb", required=True).add_parser(
        "capture", help="run a transformers model and write a trace")
    verb.add_argument("--model", required=True, help="folder or name of a transformers model, or a GGUF file that it reads")
    prompt = verb.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", help="text file; a line @@context, @@needle or @@question starts a segment")
    prompt.add_argument("--text", help="the prompt itself")
    prompt.add_argument("--ids", help="file of decimal token ids, separated by white space")
    verb.add_argument("-o", "--output", required=True, help="the trace to write")
    verb.add_argument("--block", type=_block, default=128, help="prompt tokens that are run at once, or all (default: 128)")
    verb.add_argument("--generate", type=int, default=0, help="largest number of tokens to generate, greedily")
    verb.add_argument("--dtype", default="auto", choices=["auto", "f32", "bf16", "f16"],
                      help="precision of the model; auto: as it is stored")
    verb.add_argument("--store", default="f16", choices=["f16", "f32"], help="precision of stored states")
    verb.add_argument("--device", default="cpu", help="where the model runs: cpu, cuda, mps (default: cpu)")
    verb.add_argument("--threads", type=int, help="threads for the model's products")
    verb.add_argument("--layers", help="layers of the trace, from 0 on, such as 0-7 (default: all)")
    verb.add_argument("--lm-head", action="store_true",
                      help="store the output head; without this, only if it takes at most 16 MB and less than the "
                           "states, else its rows of the tokens in the trace, up to 16 MB")
    verb.add_argument("--probe", choices=["repeat", "reread"],
                      help="read the context a second time, for the policies kvzip and kvcompose: repeat asks the model "
                           "to repeat it, reread reads it again as it is")
    verb.add_argument("--mla", default="latent", choices=["latent", "expanded"],
                      help="of models with latent attention (DeepSeek): the latents that they cache, as one key-value "
                           "head, or keys and values of every head (default: latent)")
    verb.add_argument("--progress", default="bar", choices=["bar", "none"], help="a line on the terminal, or none")
    return parser


def _block(text: str) -> int:
    try:
        return block_tokens(text)
    except KvloupeError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _layers(text: str | None) -> int | None:
    """How many of the first layers "0-7" names; None for all."""
    if text is None:
        return None
    first, _, last = text.partition("-")
    if first != "0" or not (last or "0").isdigit():
        raise KvloupeError(f"layers {text}: a trace has layers from 0 on, without a gap; write a range such as 0-7")
    return int(last or 0) + 1


def _loaded(transformers: Any, source: dict[str, str], dtype: Any) -> Any:
    """The decoder of a folder or file; of some families (Mistral 4) only the config's own class is known."""
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=dtype)
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
        config = transformers.AutoConfig.from_pretrained(**source)
        kinds = (getattr(transformers, name, None) for name in config.architectures or [])
        kind = next((one for one in kinds if hasattr(one, "from_pretrained") and one.can_generate()), None)
        if kind is None:
            raise
        return kind.from_pretrained(**source, dtype=dtype)


def _capture(words: argparse.Namespace) -> None:
    layers = _layers(words.layers)
    folder = Path(words.output).absolute().parent
    if not folder.is_dir():  # before a large model is loaded
        raise KvloupeError(f"{words.output}: the folder {folder} does not exist; make it first")
    refuse_own_input(words.output, *(one for one in (words.prompt, words.ids, words.model) if one))
    prompt: Any = words.text
    if words.prompt:
        prompt = read_prompt(words.prompt)
    elif words.ids:
        try:
            prompt = [int(word) for word in ask("read_text", None, words.ids).split()]
        except ValueError as error:
            raise KvloupeError(f"{words.ids}: is not a list of decimal token ids ({error})") from error
    try:
        import torch
        import transformers
        from transformers import AutoTokenizer

        from . import capture
    except ImportError as error:
        raise KvloupeError(f"{error}; install torch and transformers: pip install \"kvloupe[capture]\"") from error
    if words.progress == "none":
        transformers.utils.logging.disable_progress_bar()
    if words.threads:
        torch.set_num_threads(words.threads)
    kinds = {"auto": "auto", "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    own = Path(words.model)
    source = {"pretrained_model_name_or_path": words.model}
    if own.suffix == ".gguf":  # transformers expands its weights
        if not own.is_file():
            raise KvloupeError(f"{own}: this file does not exist")
        source = {"pretrained_model_name_or_path": str(own.absolute().parent), "gguf_file": own.name}
    try:
        model = _loaded(transformers, source, kinds[words.dtype])
    except Exception as error:
        if words.model in str(error):
            raise
        raise KvloupeError(f"{words.model}: cannot be loaded ({_line(error)}); check its files, such as weights that a clone without Git "
                           "LFS lacks") from error
    if getattr(model, "quantization_method", None) is None or words.device != "cpu":  # else it is where it must be
        model = model.to(words.device)
    model = model.eval()
    tokenizer = None
    try:
        # transformers guesses what a tokenizer.model alone does not say, such as the start token: kvloupe-capture reads it
        only = (own / "tokenizer.model").is_file() and not (own / "tokenizer.json").is_file()
        tokenizer = Tokenizer(own) if only else AutoTokenizer.from_pretrained(**source)
    except (KvloupeError, OSError, ValueError, ImportError):
        if not words.ids:  # ids need no tokenizer; then the trace has no text
            raise
    capture(model, tokenizer, prompt, words.output, block=words.block, generate=words.generate, store=words.store,
            lm_head=words.lm_head, layers=layers, probe=words.probe, mla=words.mla,
            progress=words.progress == "bar")


def _say(text: str) -> None:
    """On stderr, without the control characters that a text of a file may have."""
    print("kvloupe: " + "".join(c if c.isprintable() else "?" for c in text), file=sys.stderr)


def _line(error: Exception) -> str:
    said, kind = str(error).strip().partition("\n")[0], type(error).__name__
    known = isinstance(error, (KvloupeError, OSError, ValueError, ImportError, RuntimeError))
    return said if said and known else f"{kind}: {said}".removesuffix(": ")


def main() -> int:
    words = _parser().parse_args()
    warnings.simplefilter("always", KvloupeWarning)
    usual = warnings.showwarning
    warnings.showwarning = lambda message, category, *rest: (
        _say(str(message)) if issubclass(category, KvloupeWarning)
        else usual(message, category, *rest))
    try:
        _capture(words)
    except KeyboardInterrupt:
        print("kvloupe: stopped; no unfinished file is left", file=sys.stderr)
        return 130
    except Exception as error:  # of transformers and the libraries under it, too
        _say(_line(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
