"""The observed counts of a run."""

import collections
import time


class Tally:
    """The counts of the run. `must_be_zero` decides about its success."""

    MUST_BE_ZERO = {
        "wrongful log-outs": "wrongful",
        "5xx without Retry-After": "bare",
        "sessions lost after a 201": "lost",
        "refresh-token reuses seen by the provider": "reused",
        "codes used again": "codes",
        "log-outs undone after a 204": "undone",
        "requests without an answer for a minute": "hung",
        "good evidence of honest phones refused": "evidence",
        "answers with content to thieves of a cookie": "stolen",
        "sessions over before their idle time": "early",
        "sessions opened three minutes after their idle time": "late",
        "sessions over before their whole life": "cut",
        "sessions opened three minutes after their whole life": "outlived",
        "living sessions doubted": "doubted",
    }

    def __init__(self):
        self.figures = collections.Counter()
        self.answers = collections.Counter()
        self.events = collections.Counter()
        self.examples = collections.defaultdict(list)
        self.began = time.monotonic()

    def count(self, figure, example):
        self.figures[figure] += 1
        if len(self.examples[figure]) < 8:
            self.examples[figure].append(f"{time.monotonic() - self.began:.2f} s: {example}")
