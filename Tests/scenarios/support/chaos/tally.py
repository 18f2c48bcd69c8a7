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
        "authorization codes that the provider received again": "codes",
        "log-outs undone after a 204": "undone",
        "requests and restarted replicas without an answer for a minute": "hung",
        "refusals of good proofs and passes of honest phones": "evidence",
        "answers with content to thieves of a cookie": "stolen",
        "sessions that ended as idle_expired before their idle time": "early",
        "sessions still served three minutes after their idle time": "late",
        "sessions that ended as expired before their absolute end": "cut",
        "sessions still served three minutes after their absolute end": "outlived",
        "503 answers because of the clock for sessions far from their end": "doubted",
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
