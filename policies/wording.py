"""Numbers in sentences: three figures, thousands apart, no powers of ten where a person would write none."""

THOUSAND = 999.5
"""From here three figures round to a thousand."""
HUGE, TINY_FIGURE = 1e9, 1e-6
"""Outside these a power of ten is the shorter word."""


def figure(value: float) -> str:
    """Three figures.

    >>> figure(8553.2), figure(999.7), figure(0.31415), figure(0.0000421), figure(2e12)
    ('8,553', '1,000', '0.314', '0.0000421', '2e+12')
    """
    size = abs(value)
    if THOUSAND <= size < HUGE:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    if "e-" in text and size >= TINY_FIGURE:
        return f"{value:.{int(text[-2:]) + 2}f}".rstrip("0")
    return text


def seconds(value: float) -> str:
    """`93.5 s`, `18,837 s`."""
    return f"{figure(value)} s"
