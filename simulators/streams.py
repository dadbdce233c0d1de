"""Keyed random numbers: a draw is a function of what it is for, never of how many were drawn before.

So two settings of one job see the same prompts, lengths and rewards, and their difference has little noise. All
functions use integers and `math` only, so that CPython and the compiled engine agree in every bit.
"""

from math import exp, log, sqrt

MASK = 0xFFFFFFFFFFFFFFFF

STREAM_STEP = 0x9E3779B97F4A7C15
GROUP_STEP = 0xD1B54A32D192ED03
MEMBER_STEP = 0x8CB92BA72F3D8DD7
TURN_STEP = 0xAEF17502108EF2D9
"""Odd and irrational-like (Weyl) multipliers: different keys start the finaliser from different words."""

(
    SHARED_LENGTH,
    PROMPT,
    RESPONSE,
    TURNS,
    TOOL_TOKENS,
    TOOL_TIME,
    SOLVE_RATE,
    REWARD,
    FAILURE,
    FAILURE_POINT,
    PRUNING,
    SANDBOX,
    LEAK,
    ARRIVAL,
    SERVICE,
) = range(15)
"""The streams: what a number is drawn for."""


def mixed(word: int) -> int:
    """A bijection of 64-bit words that looks random: splitmix64's finaliser with Stafford's constants (mix 13)."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def seed_key(seed: int) -> int:
    """The 64-bit word that stands for a seed of any size."""
    return mixed((seed + STREAM_STEP) & MASK)


def uniform(key: int, stream: int, group: int, member: int, turn: int) -> float:
    """A number inside (0, 1), never 0 or 1, for this key (of `seed_key`) and use."""
    word = key + stream * STREAM_STEP + group * GROUP_STEP + member * MEMBER_STEP + turn * TURN_STEP
    return ((mixed(word & MASK) >> 12) + 0.5) * 2.220446049250313e-16


def normal_quantile(share: float) -> float:
    """Inverse of the standard normal distribution to 1e-15 (Wichura 1988, algorithm AS 241, PPND16).

    # share 0.5: 0 | 0.975: 1.959964 | 0.999: 3.090232
    """
    q = share - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        above = ((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r
        above = (((above + 45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427) * r
        above = (above + 133.14166789178437745) * r + 3.387132872796366608
        below = ((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r
        below = (((below + 21213.794301586595867) * r + 5394.1960214247511077) * r + 687.1870074920579083) * r
        below = (below + 42.313330701600911252) * r + 1.0
        return q * above / below
    r = sqrt(-log(share if q < 0.0 else 1.0 - share))
    if r <= 5.0:
        r -= 1.6
        above = ((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r
        above = (((above + 1.27045825245236838258) * r + 3.64784832476320460504) * r + 5.7694972214606914055) * r
        above = (above + 4.6303378461565452959) * r + 1.42343711074968357734
        below = ((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r
        below = (((below + 0.14810397642748007459) * r + 0.68976733498510000455) * r + 1.6763848301838038494) * r
        below = (below + 2.05319162663775882187) * r + 1.0
    else:
        r -= 5.0
        above = ((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.0012426609473880784386) * r
        above = (((above + 0.026532189526576123093) * r + 0.29656057182850489123) * r + 1.7848265399172913358) * r
        above = (above + 5.4637849111641143699) * r + 6.6579046435011037772
        below = ((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r
        below = (((below + 7.868691311456132591e-4) * r + 0.0148753612908506148525) * r + 0.13692988092273580531) * r
        below = (below + 0.59983220655588793769) * r + 1.0
    z = above / below
    return -z if q < 0.0 else z


def normal_share(z: float) -> float:
    """The standard normal distribution to 1e-15 (Hart 1968, by way of West 2005)."""
    a = abs(z)
    if a > 37.0:
        return 0.0 if z < 0.0 else 1.0
    tail = exp(-a * a / 2.0)
    if a < 7.07106781186547:
        above = ((3.52624965998911e-2 * a + 0.700383064443688) * a + 6.37396220353165) * a
        above = ((above + 33.912866078383) * a + 112.079291497871) * a
        above = (above + 221.213596169931) * a + 220.206867912376
        below = ((8.83883476483184e-2 * a + 1.75566716318264) * a + 16.064177579207) * a
        below = ((below + 86.7807322029461) * a + 296.564248779674) * a
        below = ((below + 637.333633378831) * a + 793.826512519948) * a + 440.413735824752
        tail = tail * above / below
    else:
        tail = tail / (a + 1.0 / (a + 2.0 / (a + 3.0 / (a + 4.0 / (a + 0.65))))) / 2.506628274631
    return tail if z < 0.0 else 1.0 - tail
