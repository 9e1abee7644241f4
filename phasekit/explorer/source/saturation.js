// One attention row as its logits are magnified, z → λz, beside what the theorems allow (docs/saturation.md, section 2).

/** Weights of a row of logits under a score; null for one that isn't a function of the row's logits. */
function rowWeights(score, parameters, z) {
  if (score === "linear") return z.slice();
  if (score === "sparsemax" || score === "entmax")
    return sparseWeights(z, score === "sparsemax" ? 1 : parameters.alpha - 1);
  const exponents = z.map((x) => transforms[score](x, ...Object.values(parameters))[0]),
    top = Math.max(...exponents);
  const weights = exponents.map((x) => Math.exp(x - top)),
    sum = weights.reduce((a, b) => a + b, 0);
  return weights.map((w) => w / sum);
}

/** α-entmax with k = α − 1: weights [k (z − τ)]^(1/k) above the threshold τ that makes them sum to 1. */
function sparseWeights(z, k) {
  const top = Math.max(...z),
    weight = (x, tau) => Math.pow(Math.max(k * (x - tau), 0), 1 / k);
  const excess = (tau) => z.reduce((sum, x) => sum + weight(x - top, tau), 0) - 1;
  const tau = rootBetween(excess, -1 / k - 1e-12, 0);
  return z.map((x) => weight(x - top, tau));
}

/** Bounds of the mass off the winner of λz, by name of the theorem; null where there is none. */
function massBounds(score, parameters, z, lambda) {
  const sorted = z.slice().sort((a, b) => b - a),
    m = z.length,
    top = sorted[0];
  const ties = sorted.filter((x) => x === top).length;
  if (ties > 1 || m < 2) return null;
  if (score === "softmax" || score === "temperature") {
    const T = score === "softmax" ? 1 : parameters.T,
      e = Math.exp((-lambda * (top - sorted[1])) / T);
    return { theorem: "softmax-magnification", low: e / (1 + e), high: ((m - 1) * e) / (1 + (m - 1) * e) };
  }
  if (score !== "ssa") return null;
  const { n, b } = parameters,
    largest = Math.max(...z.map(Math.abs));
  if (largest === 0) return null;
  const zeta = top !== 0 ? Math.abs(top) : Math.min(...z.filter((x) => x !== 0).map(Math.abs));
  const eps = 1 / (1 + lambda * b * zeta),
    mass = (S) => S / (1 + S);
  const limit = limitOdds(sorted, n);
  const S =
    limit === 0
      ? [(m - 1) * Math.pow(1 + lambda * b * largest, -2 * n), (m - 1) * Math.pow(eps, n)]
      : [limit, (1 - eps) * limit + (m - 1) * eps];
  return { theorem: "ssa-magnification", low: mass(S[0]), high: mass(S[1]) };
}

/** Odds against the winner as λ → ∞: p_j ∝ (z_j)₊ⁿ, or |z_j|⁻ⁿ where no logit is positive. */
function limitOdds(sorted, n) {
  const [top, ...rest] = sorted;
  if (top > 0) return rest.reduce((sum, x) => sum + (x > 0 ? Math.pow(x / top, n) : 0), 0);
  if (top === 0) return rest.filter((x) => x === 0).length;
  return rest.reduce((sum, x) => sum + Math.pow(top / x, n), 0);
}
