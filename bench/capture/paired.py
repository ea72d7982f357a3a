# SPDX-License-Identifier: Apache-2.0
"""Paired measurements: every round takes each condition once, in a rotating order, so that drift of the machine affects
all conditions alike; a result is the median of the rounds' ratios, with their range.
"""

import statistics


def order_of(conditions, number):
    """The order of a round: every second round starts one condition later, and the rounds between are reversed."""
    first = number // 2 % len(conditions)
    order = [*conditions][first:] + [*conditions][:first]
    return order if number % 2 == 0 else order[::-1]


def rounds_of(conditions, rounds, measure):
    """Returns {condition: [measure(condition) of each round]}."""
    results = {condition: [] for condition in conditions}
    for number in range(rounds):
        for condition in order_of(conditions, number):
            results[condition].append(measure(condition))
    return results


class Ratio:
    """The ratio of two paired series; as text "1.012 (1.003..1.020)"."""

    def __init__(self, above, below):
        self.values = [a / b for a, b in zip(above, below, strict=True)]
        self.median = statistics.median(self.values)

    def __str__(self):
        return f"{self.median:.3f} ({min(self.values):.3f}..{max(self.values):.3f})"

    @property
    def slowdown(self):
        """The ratio as a fraction: 0.01 is 1 % slower."""
        return self.median - 1

    def percent(self):
        low, high = min(self.values) - 1, max(self.values) - 1
        return f"{self.slowdown * 100:+.2f} % ({low * 100:+.2f}..{high * 100:+.2f})"


def spread(values, unit):
    return f"{statistics.median(values):.2f} {unit} ({min(values):.2f}..{max(values):.2f})"
