"""In how many values two sketches differ, by plain Python."""


def differing(one: list[int], other: list[int], width: int, far: int) -> int:
    """The number of fields of so many bits that differ, at most `far`."""
    mask = (1 << width) - 1
    fields = (
        (a >> at & mask) != (b >> at & mask) for a, b in zip(one, other, strict=True) for at in range(0, 64, width)
    )
    return min(far, sum(fields))
