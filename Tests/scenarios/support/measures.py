"""The unit and the statistics of measured values."""

MIB = 1 << 20


def quantile(values, share):
    """The value that this share of the sorted values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")
