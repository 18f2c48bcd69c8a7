"""The lifetimes, the clock steps and the tolerances of a run."""

TOKEN_LIFETIME = 5
FAULTS = ("none", "reuse", "ended", "bare", "unsynchronous")
# The idle time for each client. The shortest possible idle time is the life of a pass.
IDLE = {"brief": 30, "short": 120, "steady": 600, "finite": 60}
# The absolute life, for each client.
LIFE = {"finite": 75}
# The largest step of the database's clock.
STEP = 120
# The `Retry-After` of an answer that doubts the clock.
DOUBT = "30"
# A use moves the idle end at most once a second, or once in a hundredth of the idle time. It is written after the answer.
IDLE_GRAIN = 2.5
# After a step of the database's clock, lapses are judged up to two minutes late. The cache and the sweeper need up to a minute
# more.
IDLE_LATE = 180
BINDINGS = {"strict": {"mode": "enforce", "evidence": "pass", "pass": "1m"}, "silent": {"mode": "enforce", "evidence": "proof"}}
EVIDENCE_CODES = ("proof_required", "use_dpop_nonce", "proof_invalid")
