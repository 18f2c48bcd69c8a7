"""The lives, the clock steps and the tolerances of a run."""

TOKEN_LIFETIME = 5
FAULTS = ("none", "reuse", "ended", "bare", "unsynchronous")
# The idle time by client; the shortest possible one is a pass's life.
IDLE = {"brief": 30, "short": 120, "steady": 600, "finite": 60}
# The whole life, by client.
LIFE = {"finite": 75}
# The largest step of the database's clock.
STEP = 120
# The `Retry-After` of an answer that doubts the clock.
DOUBT = "30"
# A use moves the idle time once in a second, or in a hundredth of it, and is written behind the answer.
IDLE_GRAIN = 2.5
# Lapses are judged up to two minutes late after a step of the database's clock. The cache and the sweeper need further time.
IDLE_LATE = 180
BINDINGS = {"strict": {"mode": "enforce", "evidence": "pass", "pass": "1m"}, "silent": {"mode": "enforce", "evidence": "proof"}}
EVIDENCE_CODES = ("proof_required", "use_dpop_nonce", "proof_invalid")
