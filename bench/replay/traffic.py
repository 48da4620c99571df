"""What the live side is asked: schedules of open_loop, from seeds. Standard library only."""
import json
import random
import string
import typing

KINDS = ((0.6, 32, 16), (0.3, 96, 48), (0.1, 256, 96))  # share, tokens in, tokens out: the reference mix, cut to an eighth
MEAN_IN = sum(share * tokens_in for share, tokens_in, _ in KINDS)
MEAN_OUT = sum(share * out for share, _, out in KINDS)


class Asked(typing.NamedTuple):
    at_us: int
    input_tokens: int
    output_tokens: int


def poisson(rate, seconds, seed):
    """The mix at `rate` requests a second; each length even by a quarter to both sides."""
    chance = random.Random(seed)
    at, asked = 0.0, []
    while True:
        at += chance.expovariate(rate)
        if at >= seconds:
            return asked
        _, tokens_in, tokens_out = chance.choices(KINDS, [kind[0] for kind in KINDS])[0]
        asked.append(Asked(int(at * 1e6), round(tokens_in * chance.uniform(0.75, 1.25)), round(tokens_out * chance.uniform(0.75, 1.25))))


def together(count, tokens_in, tokens_out):
    """So many at once."""
    return [Asked(0, tokens_in, tokens_out)] * count


def beside(decoding, prompts, apart_s):
    """`decoding`: what together() gives; and meanwhile so many short requests of 64 tokens, one after the other."""
    return decoding + [Asked(int((number + 1) * apart_s * 1e6), 64, 2) for number in range(prompts)]


def one_by_one(count, tokens_in, tokens_out, apart_s):
    """Each long after the one before."""
    return [Asked(int(number * apart_s * 1e6), tokens_in, tokens_out) for number in range(count)]


def schedule(asked, seed):
    """open_loop's lines. The engine's byte tokenizer makes one token of each letter, after the one that begins a text."""
    chance = random.Random(seed)
    lines = []
    for each in asked:
        prompt = "".join(chance.choices(string.ascii_lowercase, k=max(1, each.input_tokens - 1)))
        words = {"prompt": prompt, "max_tokens": each.output_tokens, "ignore_end": True}
        lines.append(f"{each.at_us} {json.dumps(words, separators=(',', ':'))}\n")
    return "".join(lines)
