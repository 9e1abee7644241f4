// Linear attention, map estimator: S(c1, cG) (docs/theory.md, section 4), searched as in phasekit: for each direction
// from the origin the best distance is known, so that minima are found along a half circle of directions.

const LINEAR_CELLS = 64,
  LINEAR_SCAN = 120,
  SCAN_RANGE = 1e3;

const poolingCost = ({ V, L, inputs }) => (inputs === "token+position" ? square((V * L) / (V + L)) : square(L));

/** σ of the price of logits: an encoding of distance pays for them once and not in each of L rows. */
const logitScale = ({ L, sigma_g, inputs }) => (inputs === "relative" ? sigma_g * Math.sqrt(L) : sigma_g);

function linearNumbers(model, P = model.P) {
  const { V, L, sigma_w, kappa } = model,
    sigma_g = logitScale(model),
    lam = poolingCost(model);
  return {
    P,
    V,
    L,
    lam,
    t: (P * square(sigma_w)) / (kappa * V),
    half: P / (2 * kappa * V),
    pooling: sigma_g / Math.sqrt(lam),
    copying: sigma_g / (L * Math.sqrt(L - 1)),
    tail: [P, V, L, sigma_w, sigma_g, kappa, lam],
  };
}

/** S with gradient and Hessian in whitened coordinates z. */
function linearJet(z, n) {
  const [c1, cG] = physical(z, n),
    { pooling: a, copying: b } = n;
  const [value, g1, g2, h11, h12, h22] = linearMap.jet(c1, cG, ...n.tail);
  return {
    value,
    gradient: [a * g1, b * (g2 - g1)],
    hessian: [a * a * h11, a * b * (h12 - h11), b * b * (h22 - 2 * h12 + h11)],
  };
}

function physical(z, n) {
  const cG = z[1] * n.copying;
  return [z[0] * n.pooling - cG, cG];
}

/** Distance from the origin that minimises S along a direction. */
function bestRadius(direction, n) {
  const [c1, cG] = physical(direction, n),
    [s, , g, q] = linearMap.averages(c1, cG, n.L),
    tiny = 2.3e-308;
  const a = n.t * s * s,
    c = n.t * q,
    pooling = 2 * n.half * a,
    copying = 2 * n.half * (n.V - 1) * n.t * g * g;
  if (!(pooling + copying > 1)) return 0;
  let rho = Math.max((Math.sqrt(pooling) - 1) / Math.max(a, tiny), (Math.sqrt(copying) - 1) / Math.max(c, tiny), 0);
  for (let k = 0; k < 12; k++) {
    const x = 1 / (1 + a * rho),
      y = 1 / (1 + c * rho),
      px = pooling * x * x,
      cy = copying * y * y,
      total = px + cy;
    const step = (total * (Math.sqrt(total) - 1)) / Math.max(a * px * x + c * cy * y, tiny);
    rho = Math.max(rho + step, 0);
    if (Math.abs(step) <= 1e-7 * rho) break;
  }
  return Math.sqrt(rho);
}

/** Centre and half width of the directions in which the origin is unstable. */
function unstableDirections(n) {
  const [h11, h12, h22] = linearJet([0, 0], n).hessian;
  const mean = (h11 + h22) / 2,
    half = (h11 - h22) / 2,
    spread = Math.hypot(half, h12),
    lower = mean - spread;
  const width = Math.atan2(Math.sqrt(Math.max(-lower, 0)), Math.sqrt(Math.max(mean + spread, 0)));
  return [Math.atan2(-h12, -half) / 2, lower < 0 ? width : 0];
}

/** Even steps of this coordinate resolve pooling (angles of 1/√L) and copying (near a right angle) at any L. */
function stretching(L) {
  const reach = Math.log(200 * L ** 3),
    root = Math.sqrt(L);
  return {
    to(angle) {
      const turns = Math.round(angle / Math.PI),
        inside = Math.asinh(root * Math.tan(angle - turns * Math.PI));
      return Math.min(Math.max(inside, -reach), reach) + 2 * reach * turns;
    },
    from(x) {
      const turns = Math.round(x / (2 * reach));
      return Math.atan(Math.sinh(x - 2 * reach * turns) / root) + Math.PI * turns;
    },
  };
}

function linearState(model, n, z) {
  const [c1, cG] = physical(z, n),
    [s, , g, q] = linearMap.averages(c1, cG, n.L);
  return {
    P: n.P,
    stable: true,
    action: linearJet(z, n).value,
    order: { c1, cG },
    averages: { g, q },
    z,
    loss: linearMap.loss(c1, cG, ...n.tail),
    coverage: coverageOf(s, g, q, n.L),
    share: q > 0 ? (g * g) / q : 0,
  };
}

/** All minima at a P, of each pair ±(c1, cG) one; the origin below the onset. */
function linearMinima(model, P = model.P) {
  const n = linearNumbers(model, P),
    [centre, halfWidth] = unstableDirections(n);
  if (halfWidth === 0) return [linearState(model, n, [0, 0])];
  const map = stretching(n.L),
    width = halfWidth * (halfWidth < Math.PI / 2 ? 1 - 1e-6 : 1);
  const first = map.to(centre - width),
    last = map.to(centre + width);
  const place = (angle) => {
    const d = [Math.cos(angle), Math.sin(angle)],
      r = bestRadius(d, n);
    return [r * d[0], r * d[1]];
  };
  const slope = (angle) => {
    const z = place(angle),
      [along, across] = linearJet(z, n).gradient;
    return z[0] * across - z[1] * along;
  };
  const nodes = [];
  for (let k = 0; k <= LINEAR_CELLS; k++) nodes.push(map.from(first + ((last - first) * k) / LINEAR_CELLS));
  const found = [];
  for (const angle of signChanges(slope, nodes, nodes.map(slope))) {
    const z = polished(place(angle), n),
      [h11, h12, h22] = linearJet(z, n).hessian;
    const lowest = (h11 + h22) / 2 - Math.hypot((h11 - h22) / 2, h12);
    if (lowest > 0) found.push(linearState(model, n, z[0] < 0 ? [-z[0], -z[1]] : z));
  }
  if (!found.length) throw new Error("no minimum was found at this P: the search failed");
  return found;
}

/** Newton steps in both coordinates as long as they shrink the gradient. */
function polished(z, n) {
  let jet = linearJet(z, n),
    size = Math.hypot(...jet.gradient);
  for (let k = 0; k < 12; k++) {
    const [h11, h12, h22] = jet.hessian,
      [a, b] = jet.gradient,
      det = h11 * h22 - h12 * h12;
    const trial = [z[0] - (h22 * a - h12 * b) / det, z[1] - (h11 * b - h12 * a) / det];
    const there = linearJet(trial, n),
      after = Math.hypot(...there.gradient);
    if (!(after < size)) break;
    z = trial;
    jet = there;
    size = after;
  }
  return z;
}

const lowest = (states) => states.reduce((best, state) => (state.action < best.action ? state : best));

/** Onset P1 and crossover P2, where g²/q of the lowest minimum passes 1/2. */
function linearTransitions(model) {
  const { V, L, sigma_w, kappa } = model,
    sigma_g = logitScale(model);
  const P1 = thresholds.onset(V, L, sigma_w, sigma_g, kappa, poolingCost(model));
  const last = SCAN_RANGE * Math.max(P1, thresholds.copying_leading(V, L, sigma_w, sigma_g, kappa));
  const excess = (logP) => lowest(linearMinima(model, Math.exp(logP))).share - 0.5;
  const first = Math.log(P1 * (1 + 1e-6)),
    step = (Math.log(last) - first) / (LINEAR_SCAN - 1);
  let before = excess(first);
  for (let k = 1; k < LINEAR_SCAN; k++) {
    const value = excess(first + k * step);
    if (before < 0 && value >= 0)
      return { order: "second", P1, P2: Math.exp(rootBetween(excess, first + (k - 1) * step, first + k * step)) };
    before = value;
  }
  return { order: "second", P1, P2: null };
}
