"""The theorems once more, from their words: power-form weights and plain formulas at 60 digits, one row at a time.

Shares no code and no derivation with the package: weights are powers, masses are sums of weights, gradients are
numerical derivatives.
"""

from mpmath import mp, mpf

DIGITS = 60


def f(x, n, b):
    """SSA's weight (1 + b|x|)^(n sgn x)."""
    if x == 0:
        return mpf(1)
    return (1 + b * abs(x)) ** (n if x > 0 else -n)


def shares(weights):
    total = mp.fsum(weights)
    return [w / total for w in weights]


def off(weights, winners=1):
    """Mass off the first ``winners`` keys, as a sum, so that it has all its digits."""
    return mp.fsum(weights[winners:]) / mp.fsum(weights)


def exact(inputs):
    """One row of a theorem's inputs as mpmath numbers: lists of logits, single numbers."""
    numbers = {name: [mpf(float(x)) for x in row] for name, row in inputs.items()}
    return {name: row if name in ("z", "others") else row[0] for name, row in numbers.items()}


def softmax_magnification(z, lam):
    k = z.count(z[0])
    m = len(z)
    e = mp.exp(-lam * (z[0] - z[k]))
    value = off([mp.exp(lam * (x - z[0])) for x in z], k)
    return [value], [e / (k + e)], [(m - k) * e / (k + (m - k) * e)]


def ssa_ratios(z, lam, n, b):
    top = z[0]
    closed = []
    for x in z[1:]:
        if top > 0 and x > 0:
            closed.append((x / top + (1 - x / top) / (1 + lam * b * top)) ** n)
        elif top > 0 and x == 0:
            closed.append((1 + lam * b * top) ** -n)
        elif top > 0:
            closed.append(((1 + lam * b * abs(x)) * (1 + lam * b * top)) ** -n)
        elif top == 0:
            closed.append((1 + lam * b * abs(x)) ** -n)
        else:
            r = top / x
            closed.append((r + (1 - r) / (1 + lam * b * abs(x))) ** n)
    value = [f(lam * x, n, b) / f(lam * top, n, b) for x in z[1:]]
    return value, closed, closed


def ssa_monotone(z, lam, factor, n, b):
    def ratios(scale):
        return [f(scale * x, n, b) / f(scale * z[0], n, b) for x in z[1:]]

    before = ratios(lam)
    return ratios(lam * factor), [r * factor ** (-2 * n) for r in before], before


def limit_ratio(x, top, n):
    if top > 0:
        return (max(x, 0) / top) ** n
    if top == 0:
        return mpf(x == 0)
    return (top / x) ** n


def epsilon(z, lam, b):
    zeta = abs(z[0]) if z[0] != 0 else min(abs(x) for x in z if x != 0)
    return 1 / (1 + lam * b * zeta)


def ssa_limit(z, lam, n, b):
    eps = epsilon(z, lam, b)
    limits = [limit_ratio(x, z[0], n) for x in z[1:]]
    value = [f(lam * x, n, b) / f(lam * z[0], n, b) for x in z[1:]]
    return value, limits, [(1 - eps) * r + eps for r in limits]


def ssa_magnification(z, lam, n, b):
    eps, others = epsilon(z, lam, b), len(z) - 1
    limit = mp.fsum(limit_ratio(x, z[0], n) for x in z[1:])
    if limit > 0:
        low, high = limit, (1 - eps) * limit + others * eps
    else:
        low, high = others * (1 + lam * b * max(map(abs, z))) ** (-2 * n), others * eps**n
    return [off([f(lam * x, n, b) for x in z])], [low / (1 + low)], [high / (1 + high)]


def softmax_floor(z, lam):
    value = shares([mp.exp(lam * (x - z[0])) for x in z])
    return value, [mp.exp(-lam * (z[0] - x)) / len(z) for x in z], None


def ssa_floor(z, lam, n, b):
    floor = (1 + lam * b * max(map(abs, z))) ** (-2 * n) / len(z)
    return shares([f(lam * x, n, b) for x in z]), [floor] * len(z), None


def softmax_imbalance(others, gap):
    top, m = others[0] + gap, len(others) + 1
    value = off([mp.exp(x - top) for x in (top, *others)])
    return [value], [1 / (1 + mp.exp(gap))], [(m - 1) / (m - 1 + mp.exp(gap))]


def growth(c, gap, n, b):
    if c >= 0:
        return (1 + b * gap / (1 + b * c)) ** n
    if c + gap >= 0:
        return ((1 + b * abs(c)) * (1 + b * (gap - abs(c)))) ** n
    return ((1 + b * abs(c)) / (1 + b * (abs(c) - gap))) ** n


def ssa_imbalance(others, gap, n, b):
    g, m = growth(others[0], gap, n, b), len(others) + 1
    value = off([f(x, n, b) for x in (others[0] + gap, *others)])
    return [value], [1 / (1 + g)], [(m - 1) / (m - 1 + g)]


def ssa_imbalance_uniform(c, gap, n, b):
    return [f(c + gap, n, b) / f(c, n, b)], [mpf(1)], [(1 + b * gap / 2) ** (2 * n)]


def ssa_tail(others, gap, n, b):
    total = mp.fsum(f(x, n, b) for x in others)
    kappa = abs(1 + b * others[0]) / (b * gap)
    leading, error = total * (b * gap) ** -n, mp.exp(n * kappa / (1 - kappa))
    return [total / f(others[0] + gap, n, b)], [leading / error], [leading * error]


def winner_share(logits, n, b):
    return shares([f(x, n, b) for x in logits])[0]


def ssa_gradient(others, gap, n, b):
    top = others[0] + gap
    total = mp.fsum(f(x, n, b) for x in others)
    kappa = abs(1 + b * others[0]) / (b * gap)
    spread = mp.exp(n * kappa / (1 - kappa))
    leading, error = n * b * total * (b * gap) ** (-n - 1), mp.exp((n + 1) * kappa / (1 - kappa))
    saturation = 2 * total * (b * gap) ** -n * spread
    value = mp.diff(lambda x: winner_share([x, *others], n, b), top)
    return [value], [leading / error * mp.exp(-saturation)], [leading * error]


def ssa_gradient_others(others, gap, n, b):
    top = others[0] + gap
    total = mp.fsum(f(x, n, b) for x in others)
    kappa = abs(1 + b * others[0]) / (b * gap)
    error = mp.exp(n * kappa / (1 - kappa))
    saturation = 2 * total * (b * gap) ** -n * error
    value, leading = [], []
    for j, x in enumerate(others):

        def share(moved, j=j):
            return winner_share([top, *others[:j], moved, *others[j + 1 :]], n, b)

        value.append(-mp.diff(share, x))
        leading.append(f(x, n, b) * n * b / (1 + b * abs(x)) * (b * gap) ** -n)
    return value, [w / error * mp.exp(-saturation) for w in leading], [w * error for w in leading]


def softmax_gradient(others, gap):
    top, m = others[0] + gap, len(others) + 1
    e = mp.exp(-gap)
    value = mp.diff(lambda x: shares([mp.exp(y - top) for y in (x, *others)])[0], top)
    return [value], [e / (1 + (m - 1) * e) ** 2], [(m - 1) * e]


def crossover(n, b, ratio):
    def h(gap):
        return n * mp.log(1 + b * gap) - gap

    # h rises up to its maximum at n − 1/b and has its root beyond: bisection needs no formula for the root
    low, high = n - 1 / b, 2 * (n - 1 / b) + 1
    while h(high) > 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if h(middle) > 0 else (low, middle)
    root, gap = low, ratio * low
    value = f(gap, n, b) / mp.exp(gap)
    if ratio <= 1:
        slope, anchor = (n * b - 1, mpf(0)) if ratio <= mpf("0.5") else (-mp.diff(h, root), None)
        upper = slope * gap if anchor is not None else slope * (root - gap)
        return [value], [mpf(1)], [mp.exp(upper)]
    return [value], [mp.exp(root - gap)], [mp.exp(mp.diff(h, root) * (gap - root))]


def exponential_limit(z, n):
    eps = max(map(abs, z)) ** 2 / (2 * n)
    ssa = shares([f(x, n, 1 / n) for x in z])
    plain = shares([mp.exp(x) for x in z])
    value = [p / q for p, q in zip(ssa, plain, strict=True)]
    return value, [mp.exp(-2 * eps)] * len(z), [mp.exp(2 * eps)] * len(z)


REFERENCES = {
    "softmax-magnification": softmax_magnification,
    "ssa-ratios": ssa_ratios,
    "ssa-monotone": ssa_monotone,
    "ssa-limit": ssa_limit,
    "ssa-magnification": ssa_magnification,
    "softmax-floor": softmax_floor,
    "ssa-floor": ssa_floor,
    "softmax-imbalance": softmax_imbalance,
    "ssa-imbalance": ssa_imbalance,
    "ssa-imbalance-uniform": ssa_imbalance_uniform,
    "ssa-tail": ssa_tail,
    "ssa-gradient": ssa_gradient,
    "ssa-gradient-others": ssa_gradient_others,
    "softmax-gradient": softmax_gradient,
    "crossover": crossover,
    "exponential-limit": exponential_limit,
}
