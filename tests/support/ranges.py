"""The ranges of seqs that a set of them has."""


def ranges_over(held: set[int]) -> list[list[int]]:
    """The ranges of a set, the slow way."""
    ranges: list[list[int]] = []
    for seq in sorted(held):
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1][1] = seq
        else:
            ranges.append([seq, seq])
    return ranges
