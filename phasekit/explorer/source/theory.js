// What the page asks of the theory, for any score. Failures are thrown with a reason; nothing is left out silently.
//
//   model = {score, parameters: {n: …}, V, L, P, sigma_w, sigma_g, kappa, inputs: "positional" | "token+position" | "relative"}

const orderNames = (model) => (model.score === "linear" ? ["c1", "cG"] : ["a1", "aG"]);

/** Minima and saddle points at the model's P; each has action, order, loss, coverage, share and whether it is stable. */
const stationary = (model, P = model.P) =>
  model.score === "linear" ? linearMinima(model, P) : rowStationary(model, P);

/** Minima at the model's P, lowest action first. */
const minima = (model, P = model.P) =>
  stationary(model, P)
    .filter((state) => state.stable)
    .sort((a, b) => a.action - b.action);

const passages = new Map();

/** Thresholds by name: order, and P1, P2 (linear), P_star, spinodals, barrier (a jump) or P_x (a crossover). */
function transitions(model) {
  const key = JSON.stringify({ ...model, P: 0 });
  if (!passages.has(key)) {
    if (passages.size > 2000) passages.clear();
    passages.set(key, model.score === "linear" ? linearTransitions(model) : rowTransitions(model));
  }
  return passages.get(key);
}

/** Every branch continued in P: lists of states, each with whether it is stable and whether it is the lowest one. */
function branches(model, lowP, highP, count = 160) {
  const step = Math.log(highP / lowP) / (count - 1),
    Ps = Array.from({ length: count }, (_, k) => lowP * Math.exp(k * step));
  if (model.score === "linear") return linearBranches(model, Ps);
  const curve = curveOf(model),
    passage = transitions(model),
    result = [];
  const lowestAt = (state, k) =>
    passage.order !== "first" || (k === 0 ? state.P <= passage.P_star : state.P >= passage.P_star);
  curve.pieces.forEach((piece, k) => {
    const [from, to] = [Math.min(piece.first, piece.final), Math.max(piece.first, piece.final)];
    const inner = Ps.filter((P) => Math.log(P) > from && Math.log(P) < to);
    const states = [];
    if (piece.low > 0) states.push(curve.at(piece.low));
    for (const P of piece.stable ? inner : inner.reverse()) {
      const low = piece.low === 0 ? curve.places[0] * 1e-12 : piece.low;
      states.push(curve.at(rootBetween((x) => curve.at(x).logP - Math.log(P), low, piece.high)));
    }
    if (k + 1 < curve.pieces.length) states.push(curve.at(piece.high));
    const shown = states
      .map((place) => rowState(model, Math.exp(place.logP), place, piece.stable))
      .filter((state) => state.P >= lowP && state.P <= highP);
    result.push(...split(shown, piece.stable, (state) => lowestAt(state, k)));
  });
  if (Number.isFinite(curve.kink)) {
    const states = Ps.filter((P) => P >= curve.kink).map((P) => rowState(model, P, kinkPlace(curve), true));
    result.push(...split(states, true, (state) => lowestAt(state, curve.pieces.length)));
  }
  return result;
}

function split(states, stable, isLowest) {
  const parts = [
    { stable, lowest: true, states: states.filter((state) => stable && isLowest(state)) },
    { stable, lowest: false, states: states.filter((state) => !stable || !isLowest(state)) },
  ];
  return parts.filter((part) => part.states.length > 0);
}

function linearBranches(model, Ps) {
  const low = { stable: true, lowest: true, states: [] },
    other = { stable: true, lowest: false, states: [] };
  for (const P of Ps) {
    const states = linearMinima(model, P),
      best = lowest(states);
    low.states.push(best);
    for (const state of states) if (state !== best) other.states.push(state);
  }
  return [low, other].filter((branch) => branch.states.length > 0);
}

/** S along one coordinate at the model's P: the copying order parameter, the other one being the best there. */
function actionCurve(model, count = 240) {
  return model.score === "linear" ? linearActionCurve(model, count) : rowActionCurve(model, count);
}

function rowActionCurve(model, count) {
  const { V, L, P, sigma_w, kappa } = model,
    curve = curveOf(model),
    states = rowStationary(model);
  const furthest = Math.max(
    ...states.map((state) => (Number.isFinite(state.u) ? state.u : curve.places[curve.places.length - 1])),
  );
  const end = Math.min(
    curve.places[curve.places.length - 1],
    Math.max(1.6 * furthest, curve.places[Math.floor(curve.places.length / 8)]),
  );
  const x = [],
    S = [];
  for (let k = 0; k <= count; k++) {
    const place = curve.price.place(Math.max(end * square(k / count), 1e-9 * end)),
      g = softmaxMap.averages(place.delta, L)[2];
    x.push(rowOrder(1, g, L).aG);
    S.push(twoLevel.data_jet(place.delta, P, V, L, sigma_w, kappa)[0] + place.cost);
  }
  return { coordinate: "aG", x, S };
}

function linearActionCurve(model, count) {
  const n = linearNumbers(model),
    states = linearMinima(model);
  const scale = (k) => 1.8 * Math.max(...states.map((state) => Math.abs(k(state))));
  const cGs = scale((state) => state.order.cG) || 3 * n.copying,
    sums = scale((state) => state.order.c1 + state.order.cG) || 3 * n.pooling;
  const x = [],
    S = [];
  for (let k = 0; k <= count; k++) {
    const cG = cGs * ((2 * k) / count - 1),
      along = (s) => linearMap.jet(s - cG, cG, ...n.tail)[0];
    // Of a pattern and its negative, which have the same action, the one with c1 + cG ≥ 0.
    let best = 0;
    for (let i = 1; i <= 40; i++) if (along((sums * i) / 40) < along(best)) best = (sums * i) / 40;
    x.push(cG);
    S.push(along(lowestBetween(along, Math.max(best - sums / 40, 0), best + sums / 40)));
  }
  return { coordinate: "cG", x, S };
}

/** The L × L attention matrix at a minimum, or its first rows and columns. */
function attention(model, state, size) {
  const shown = Math.min(model.L, size),
    weights = [];
  const [pooling, copying] = Object.values(state.order);
  for (let i = 0; i < shown; i++)
    weights.push(
      Array.from({ length: shown }, (_, j) => pooling / model.L + (j === (i + model.L - 1) % model.L ? copying : 0)),
    );
  return weights;
}
