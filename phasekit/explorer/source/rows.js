// Normalised scores, map estimator: rows of two levels of logits (docs/theory.md, sections 5 and 6).
//
// A row gives its copy entry log odds δ over any other one. S = Φ(δ) + price, and the price alone differs between
// scores. At each place u of a score's path exactly one P makes the state stationary, so that the stationary points of
// all P are one curve P(u): it rises through minima and falls through saddle points.

const LARGEST_ODDS = 320,
  RESOLVED_ODDS = 36,
  CURVE_NODES = 400;

/** The score's price along its path: place(u) gives δ, dδ/du, cost, force d cost/dδ and d ln force/du. */
function priceOf(model) {
  const { L } = model,
    sigma_g = logitScale(model),
    numbers = model.parameters || {};
  const stiffness = (L - 1) / square(sigma_g);
  if (model.score === "softmax" || model.score === "temperature") {
    const T = model.score === "softmax" ? 1 : numbers.T,
      cost = stiffness * square(T);
    return {
      place: (u) => ({
        delta: u,
        rise: 1,
        gap: T * u,
        mean: 0,
        cost: (cost * square(u)) / 2,
        force: cost * u,
        bend: 1 / u,
      }),
      last: RESOLVED_ODDS + Math.log(L),
    };
  }
  if (model.score === "sparsemax" || model.score === "entmax") {
    const k = model.score === "sparsemax" ? 1 : numbers.alpha - 1;
    const place = (u) => {
      const [gap, rise, bend] = twoLevel.entmax_gap(u, L, k);
      return {
        delta: u,
        rise: 1,
        gap,
        mean: 0,
        cost: (stiffness * square(gap)) / 2,
        force: stiffness * gap * rise,
        bend: rise / gap + bend / rise,
      };
    };
    // For k < 1 the minimum at P* may have odds of L^(−k/(1 − k)) against the copy entry.
    const further = k < 1 ? (Math.log(L) * k) / (1 - k) + 10 : 0,
      last = Math.log(L - 1) + Math.log(1e4) + further;
    return {
      place,
      k,
      kinkCost: stiffness / square(k) / 2,
      last: Math.min(last, LARGEST_ODDS),
      ends: k >= 1 ? RESOLVED_ODDS : LARGEST_ODDS,
    };
  }
  return { place: transformedPrice(model, stiffness), wide: true };
}

/** Softmax of an elementwise transform t: logits of the cheapest mean for each gap. */
function transformedPrice(model, stiffness) {
  const { L } = model,
    sigma_g = logitScale(model),
    lam = poolingCost(model);
  const values = Object.values(model.parameters),
    t = (x) => transforms[model.score](x, ...values);
  const up = 1 - 1 / L,
    down = -1 / L;
  const odds = (gap, mean) => {
    const [a, a1, a2] = t(mean + gap * up),
      [b, b1, b2] = t(mean + gap * down);
    return {
      value: a - b,
      gap: a1 * up - b1 * down,
      mean: a1 - b1,
      gapGap: a2 * up * up - b2 * down * down,
      gapMean: a2 * up - b2 * down,
      meanMean: a2 - b2,
    };
  };
  const balance = (gap) => (mean) => {
    const o = odds(gap, mean);
    return [lam * mean * o.gap - (L - 1) * gap * o.mean, lam * (o.gap + mean * o.gapMean) - (L - 1) * gap * o.meanMean];
  };
  return (gap) => {
    const pull = balance(gap)(0)[0];
    let mean = 0;
    if (Math.abs(pull) > 1e-15 * (L - 1) * gap)
      mean = newtonBetween(balance(gap), pull > 0 ? -gap : 0, pull < 0 ? gap : 0, 0);
    const o = odds(gap, mean);
    const along = lam * mean * o.gapGap - (L - 1) * (o.mean + gap * o.gapMean);
    const meanRise = -along / (lam * (o.gap + mean * o.gapMean) - (L - 1) * gap * o.meanMean);
    return {
      delta: o.value,
      rise: o.gap + o.mean * meanRise,
      gap,
      mean,
      cost: (stiffness * square(gap)) / 2 + (lam * square(mean)) / square(sigma_g) / 2,
      force: (stiffness * gap) / o.gap,
      bend: 1 / gap - (o.gapGap + o.gapMean * meanRise) / o.gap,
    };
  };
}

/** ln P at which the state at u is stationary. */
function balancingLogP(model, place) {
  const { V, L, sigma_w, kappa } = model;
  const excess = (logT) => {
    const [pull, steepness] = twoLevel.data_force(place.delta, Math.exp(logT), V, L, sigma_w);
    return [Math.log(pull / place.force), steepness];
  };
  return newtonBetween(excess, -150, 150, 0) + Math.log((kappa * V) / square(sigma_w));
}

/** d ln P/du along the curve of stationary points. */
function logPSlope(model, place, logP) {
  const { V, L, sigma_w, kappa } = model,
    P = Math.exp(logP);
  const [, slope, curvature] = twoLevel.data_jet(place.delta, P, V, L, sigma_w, kappa);
  const steepness = twoLevel.data_force(place.delta, (P * square(sigma_w)) / (kappa * V), V, L, sigma_w)[1];
  return (place.bend - (curvature / slope) * place.rise) / steepness;
}

const curves = new Map();

/** The curve of stationary points of a model, whatever its P: nodes, folds, and pieces that rise or fall. */
function curveOf(model) {
  const key = JSON.stringify([
    model.score,
    model.parameters,
    model.V,
    model.L,
    model.sigma_w,
    model.sigma_g,
    model.kappa,
    model.inputs,
  ]);
  if (!curves.has(key)) {
    if (curves.size > 400) curves.clear();
    curves.set(key, makeCurve(model));
  }
  return curves.get(key);
}

function makeCurve(model) {
  const price = priceOf(model),
    last = price.wide ? lastGap(model, price) : price.last;
  const at = (u) => {
    const place = price.place(u);
    return { ...place, u, logP: balancingLogP(model, place) };
  };
  const slope = (u) => {
    const point = at(u);
    return logPSlope(model, point, point.logP);
  };
  const unit = price.wide ? 1 / (price.place(1e-6).delta / 1e-6) : 1;
  const nodes = [],
    reach = Math.asinh(last / unit);
  for (let k = 1; k <= CURVE_NODES; k++)
    nodes.push(price.wide ? unit * Math.sinh((reach * k) / CURVE_NODES) : (last * k) / CURVE_NODES);
  for (let k = 1; k <= 64 && price.ends > last; k++) nodes.push(last + ((price.ends - last) * k) / 64); // few change there
  const points = nodes.map(at).filter((point) => Number.isFinite(point.logP));
  if (points.length < CURVE_NODES / 2) throw new Error("the curve of minima can't be followed at these numbers");
  const places = points.map((point) => point.u);
  const slopes = points.map((point) => logPSlope(model, point, point.logP));
  // On its last bit before a kink a curve may fall by a millionth: nobody's jump, and not one of phasekit's either.
  const slopeThere = slopes[Math.min(CURVE_NODES, slopes.length) - 1];
  const folds = signChanges(slope, places, slopes).filter((u) => u <= last || slopeThere < 0);
  const ends = [0, ...folds, places[places.length - 1]];
  const pieces = [];
  for (let k = 0; k + 1 < ends.length; k++) {
    const first = k === 0 ? -Infinity : at(ends[k]).logP,
      final = at(ends[k + 1]).logP;
    pieces.push({ low: ends[k], high: ends[k + 1], first, final, stable: final > first });
  }
  const kink = price.k >= 1 ? kinkStart(model, price) : NaN;
  return { price, at, slope, points, places, folds, pieces, kink };
}

/** A gap so large that every P which the page can show has its minima before it. */
function lastGap(model, price) {
  let gap = 1;
  while (price.place(gap).delta < Math.log(model.L) + 12 && gap < 1e12) gap *= 1.5;
  return gap;
}

/** The P from which on all weight on the copy entry is a minimum; NaN where the data never pull that far. */
function kinkStart(model, price) {
  const { V, L, sigma_w, kappa } = model,
    sigma_g = logitScale(model);
  const rise = price.k > 1 ? 1 : 1 - 1 / L;
  const pull = ((V - 1) * price.k * rise * square(sigma_g)) / (L - 1) / square(sigma_w);
  return pull > 1 ? (kappa * V) / square(sigma_w) / (Math.sqrt(pull) - 1) : NaN;
}

/** Everything the page says of one state of rows. */
function rowState(model, P, place, stable) {
  const { V, L, sigma_w, kappa } = model,
    sigma_g = logitScale(model);
  const [s, , g, q] = softmaxMap.averages(place.delta, L);
  const [data] = twoLevel.data_jet(place.delta, P, V, L, sigma_w, kappa);
  return {
    P,
    stable,
    action: data + place.cost,
    order: rowOrder(s, g, L),
    averages: { g, q },
    u: place.u,
    gap: place.gap,
    delta: place.delta,
    loss: softmaxMap.loss(place.delta, P, V, L, sigma_w, sigma_g, kappa),
    coverage: coverageOf(s, g, q, L),
    share: square(g) / q,
  };
}

function rowOrder(s, g, L) {
  const copying = (g - s / L) / (1 - 1 / L);
  return { a1: s - copying, aG: copying };
}

/** Share of ‖A‖² that the two patterns explain. */
function coverageOf(s, g, q, L) {
  const copying = (g - s / L) / (1 - 1 / L),
    pooling = s - copying;
  const inside = square(pooling) + 2 * pooling * copying + L * square(copying);
  return L * q > 0 ? inside / (inside + Math.max(L * q - inside, 0)) : NaN;
}

const kinkPlace = (curve) => ({ delta: LARGEST_ODDS, cost: curve.price.kinkCost, gap: 1 / curve.price.k, u: Infinity });

/** All stationary points at the model's P: minima and saddle points, in the order of the path. */
function rowStationary(model, P = model.P) {
  const curve = curveOf(model),
    logP = Math.log(P),
    found = [];
  for (const piece of curve.pieces) {
    const between = piece.stable
      ? piece.first < logP && logP <= piece.final
      : piece.final < logP && logP <= piece.first;
    if (!between) continue;
    const low = piece.low === 0 ? curve.places[0] * 1e-12 : piece.low;
    const u = rootBetween((x) => curve.at(x).logP - logP, low, piece.high);
    found.push(rowState(model, P, curve.at(u), piece.stable));
  }
  if (P >= curve.kink) found.push(rowState(model, P, kinkPlace(curve), true));
  if (!found.some((state) => state.stable))
    throw new Error("no minimum was found at this P: it lies beyond the path that is searched");
  return found;
}

/** A jump (P_star between spinodals), or a crossover (P_x). */
function rowTransitions(model) {
  const curve = curveOf(model),
    { pieces } = curve;
  const falling = pieces.findIndex((piece) => !piece.stable);
  if (falling < 0) {
    const P_x = steepest(model, curve);
    return Number.isNaN(P_x) ? { order: "none", P_x: null } : { order: "crossover", P_x };
  }
  const upper = Math.exp(pieces[falling].first),
    intoKink = falling === pieces.length - 1;
  const lower = intoKink ? curve.kink : Math.exp(pieces[falling].final);
  if (!Number.isFinite(lower))
    throw new Error("the curve of minima ends while it falls: its second spinodal wasn't found");
  const advantage = (logP) => {
    const minima = rowStationary(model, Math.exp(logP)).filter((state) => state.stable);
    return minima[minima.length - 1].action - minima[0].action;
  };
  const [low, high] = [Math.log(lower), Math.log(upper)],
    inside = 1e-9 * (high - low);
  const P_star = Math.exp(rootBetween(advantage, low + inside, high - inside));
  const states = rowStationary(model, P_star),
    minima = states.filter((state) => state.stable);
  const barrier = Math.max(...states.filter((state) => !state.stable).map((state) => state.action)) - minima[0].action;
  return {
    order: "first",
    P_star,
    spinodals: [lower, upper],
    before: minima[0],
    after: minima[minima.length - 1],
    barrier,
  };
}

/** P at which ln g rises fastest with ln P along a curve without folds. */
function steepest(model, curve) {
  const flatness = (u) => {
    const point = curve.at(u),
      x = (model.L - 1) * Math.exp(-point.delta);
    return logPSlope(model, point, point.logP) / ((x / (1 + x)) * point.rise); // d ln g/dδ = 1 − g
  };
  const values = curve.places.slice(0, CURVE_NODES).map((u) => {
    const f = flatness(u);
    return Number.isFinite(f) ? f : Infinity;
  });
  const k = values.indexOf(Math.min(...values));
  if (k === 0) return NaN;
  if (k === values.length - 1) return curve.kink;
  const h = 1e-4 * curve.places[k];
  const bend = (u) =>
    (flatness(u - 2 * h) - 8 * flatness(u - h) + 8 * flatness(u + h) - flatness(u + 2 * h)) / (12 * h);
  return Math.exp(curve.at(rootBetween(bend, curve.places[k - 1], curve.places[k + 1])).logP);
}
