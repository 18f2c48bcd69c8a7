"""Many calls at a time, and their answers."""

import concurrent.futures


def many(function, number, at_once=8):
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(function, range(number)))


def told(answers):
    """The number of answers for each status and code."""
    statuses = [answer.told for answer in answers]
    return {status: statuses.count(status) for status in sorted(set(statuses))}
