"""Intervals and verdicts of docs/claims.md."""
import functools
import math
import statistics


SAME = 10  # so many prompts with one and the same number have a verdict without an interval


@functools.lru_cache
def t_quantile(freedom):
    """The 97.5 % quantile of Student's t, from its density by Simpson's rule and bisection."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    density = lambda x: scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2)

    def inside(x, steps=4000):
        h = x / steps
        return h / 3 * sum((1 if k in (0, steps) else 4 if k % 2 else 2) * density(k * h) for k in range(steps + 1))
    low, high = 0.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < 0.475 else (low, middle)
    return low


def verdict(numbers, side, threshold):
    """(mean, half of the interval, verdict); half is None where all numbers are equal or there are fewer than three."""
    middle = statistics.fmean(numbers)
    if len(set(numbers)) == 1 and len(numbers) >= SAME and middle != threshold:
        return middle, None, "holds" if (middle > threshold) == (side == ">") else "does not hold here"
    if len(numbers) < 3 or len(set(numbers)) == 1:
        return middle, None, "cannot be told"
    half = t_quantile(len(numbers) - 1) * statistics.stdev(numbers) / math.sqrt(len(numbers))
    if middle - half <= threshold <= middle + half:
        return middle, half, "cannot be told"
    return middle, half, "holds" if (middle > threshold) == (side == ">") else "does not hold here"


def written(numbers):
    """The mean with its interval, as text."""
    middle, half, _ = verdict(numbers, ">", 0)
    return f"{middle:.3g}" + ("" if half is None else f" [{middle - half:.3g}, {middle + half:.3g}]")
