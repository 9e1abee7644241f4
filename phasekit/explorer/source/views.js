// The views: each gives a chart or a picture for one model, the table behind it, and the Python line for its numbers.

const VIEWS = [
  { id: "action", title: "Effective action", compute: actionView },
  { id: "course", title: "Order parameters against P", compute: courseView("order") },
  { id: "loss", title: "Loss and coverage against P", compute: courseView("loss") },
  { id: "diagram-L", title: "Phase diagram: L and P", compute: diagramView("L") },
  { id: "diagram-V", title: "Phase diagram: V and P", compute: diagramView("V") },
  { id: "matrix", title: "Attention matrix", compute: matrixView },
  { id: "rows", title: "Weights of one row, magnified", compute: rowsView, exact: true },
];
const MATRIX_SIZE = 24,
  COURSE_POINTS = 160,
  COURSE_LOOKS = ["first", "second"];
const ORDER_LABELS = { a1: "a₁, uniform pooling", aG: "a_G, copying", c1: "c₁, pooling", cG: "c_G, copying" };

/** The range of P that is shown: a decade and a half around what happens, and the P of the model. */
function rangeOfP(model) {
  const found = transitions(model),
    places = [found.P_star, found.P_x, found.P1, found.P2, ...(found.spinodals || [])].filter((P) => P > 0);
  if (!places.length) places.push(model.P);
  const low = Math.min(...places) / 12,
    high = Math.max(...places) * 12;
  return [Math.min(low, model.P / 1.5), Math.max(high, model.P * 1.5)];
}

function marksOf(found) {
  const marks = [];
  if (found.P_star) marks.push({ x: found.P_star, label: "P*", before: true });
  if (found.spinodals) marks.push({ x: found.spinodals[0], label: "" }, { x: found.spinodals[1], label: "spinodals" });
  if (found.P_x) marks.push({ x: found.P_x, label: "P×" });
  if (found.P1) marks.push({ x: found.P1, label: "P₁", before: true });
  if (found.P2) marks.push({ x: found.P2, label: "P₂" });
  return marks;
}

function actionView(model) {
  const curve = actionCurve(model),
    states = stationary(model),
    key = curve.coordinate;
  const shift = Math.min(...curve.S, ...states.map((state) => state.action)),
    pairs = curve.x.map((x, k) => [x, curve.S[k] - shift]);
  const place = (state) => [state.order[key], state.action - shift];
  const best = lowest(states.filter((state) => state.stable)),
    others = states.filter((state) => state.stable && state !== best);
  const ends = [Math.min(...curve.x), Math.max(...curve.x)];
  // As high as the action gets between the minima and a little beyond.
  const reach = 1.15 * Math.max(...states.map((state) => Math.abs(state.order[key]))) || ends[1] / 2;
  const top =
    1.1 *
    Math.max(
      ...pairs.filter(([x]) => Math.abs(x) <= reach).map(([, S]) => S),
      ...states.map((state) => state.action - shift),
      1e-6,
    );
  const spec = {
    title: "Effective action along its copying order parameter",
    x: { label: ORDER_LABELS[key], low: ends[0], high: ends[1] },
    y: { label: "S − lowest S", low: -0.04 * top, high: top },
    series: [
      { name: "action", kind: "line", look: "first", points: pairs },
      {
        name: "lowest minimum",
        kind: "points",
        look: "lowest",
        radius: 5,
        points: [place(best)],
      },
      {
        name: "other minimum",
        kind: "points",
        look: "other",
        radius: 4.5,
        points: others.map(place),
      },
      {
        name: "saddle point",
        kind: "points",
        look: "saddle",
        radius: 4,
        points: states.filter((state) => !state.stable).map(place),
      },
    ].filter((series) => series.points.length),
  };
  const python = `import phasekit; phasekit.find_minima(${pythonModel(model)}).action`;
  const names = orderNames(model),
    rows = stateRows(states);
  curve.x.forEach((x, k) => rows.push(["curve", curve.S[k], ...names.map((name) => (name === key ? x : "")), "", ""]));
  const note =
    model.score === "linear" ? "At each c_G the best c₁ with c₁ + c_G ≥ 0, so that a minimum of higher action can lie a little above the curve; (−c₁, −c_G) has the same action." : "";
  return { spec, python, rows, note };
}

function stateRows(states) {
  const names = Object.keys(states[0].order);
  const rows = [["", "action", ...names, "loss", "coverage"]],
    best = lowest(states.filter((state) => state.stable));
  for (const state of states)
    rows.push([
      state === best ? "lowest minimum" : state.stable ? "other minimum" : "saddle point",
      state.action,
      ...names.map((name) => state.order[name]),
      state.loss,
      state.coverage,
    ]);
  return rows;
}

function courseView(what) {
  return (model) => {
    const [low, high] = rangeOfP(model),
      parts = branches(model, low, high, COURSE_POINTS);
    const lines =
      what === "order"
        ? orderNames(model).map((name) => ({ label: ORDER_LABELS[name], name, value: (state) => state.order[name] }))
        : [
            { label: "loss", name: "loss", value: (state) => state.loss },
            { label: "coverage", name: "coverage", value: (state) => state.coverage },
          ];
    const series = [];
    lines.forEach((line, k) => {
      for (const part of parts) {
        const style = part.lowest ? "" : part.stable ? " metastable" : " unstable";
        const scattered = model.score === "linear" && !part.lowest;
        series.push({
          name: `${line.label}${part.lowest ? "" : part.stable ? ", other minimum" : ", saddle point"}`,
          kind: scattered ? "points" : "line",
          radius: 1.6,
          look: COURSE_LOOKS[k] + style,
          points: part.states.map((state) => [state.P, line.value(state)]),
        });
      }
      const networks = networksFor(model).map((row) => [
        row[0],
        row[{ a1: 1, c1: 1, aG: 2, cG: 2, loss: 3, coverage: 4 }[line.name]],
      ]);
      if (networks.length)
        series.push({
          name: `${line.label}, trained networks`,
          kind: "points",
          look: `network ${COURSE_LOOKS[k]}`,
          points: networks.filter(([P]) => P >= low && P <= high),
        });
    });
    const values = series.flatMap((one) => one.points.map(([, y]) => y)).filter(Number.isFinite);
    const bottom = Math.min(0, ...values),
      top = Math.max(...values),
      pad = 0.05 * (top - bottom);
    const spec = {
      title: `${lines.map((line) => line.label).join(" and ")} against P`,
      x: { label: "P, training sequences", log: true, low, high },
      y: { label: lines.map((line) => line.label.split(",")[0]).join(", "), low: bottom - pad, high: top + pad },
      series,
      marks: marksOf(transitions(model)),
    };
    const grid = `${pythonModel(model, "no P")}.grid(P=np.geomspace(${low}, ${high}, ${COURSE_POINTS}))`;
    return { spec, moves: "P", python: `import numpy as np, phasekit; phasekit.find_minima(${grid})` };
  };
}

/** Rows [P, first order parameter, second, loss, coverage] of trained networks of this very model. */
function networksFor(model) {
  const key = [
    model.score,
    ...Object.values(model.parameters),
    model.inputs,
    model.V,
    model.L,
    model.sigma_w,
    model.sigma_g,
    model.kappa,
  ].join(" ");
  return PAGE.networks[key] || [];
}

const diagrams = new Map();

/** Thresholds along V or L, computed a few at a time; `ready` is called when there are more. */
function diagramLines(model, axis, ready) {
  const key = JSON.stringify({ ...model, P: 0, [axis]: 0, axis });
  if (!diagrams.has(key)) {
    if (diagrams.size > 60) diagrams.clear();
    const slider = SLIDERS.find((one) => one.name === axis),
      sizes = [];
    for (let k = 0; k < 41; k++) {
      const size = Math.round(slider.low * (slider.high / slider.low) ** (k / 40));
      if (sizes[sizes.length - 1] !== size) sizes.push(size);
    }
    const lines = { points: [], failed: 0, done: false, waiting: new Set() };
    diagrams.set(key, lines);
    const step = () => {
      const until = performance.now() + 8;
      while (sizes.length && performance.now() < until) {
        const size = sizes.shift();
        try {
          lines.points.push({ size, ...transitions({ ...model, [axis]: size }) });
        } catch {
          lines.failed += 1;
        }
      }
      lines.done = sizes.length === 0;
      if (lines.done) {
        lines.waiting.forEach((call) => call());
        lines.waiting.clear();
      } else setTimeout(step, 0);
    };
    setTimeout(step, 0);
  }
  const lines = diagrams.get(key);
  if (!lines.done) lines.waiting.add(ready);
  return lines;
}

const THRESHOLDS = [
  ["P_star", "P*, jump", "first", (row) => row.P_star],
  ["P_x", "P×, steepest point of a crossover", "first metastable", (row) => row.P_x],
  ["lower", "lower spinodal", "second metastable", (row) => row.spinodals && row.spinodals[0]],
  ["upper", "upper spinodal", "second metastable", (row) => row.spinodals && row.spinodals[1]],
  ["P1", "P₁, onset of pooling", "second", (row) => row.P1],
  ["P2", "P₂, crossover to copying", "first", (row) => row.P2],
];

function diagramView(axis) {
  return (model, ready) => {
    const lines = diagramLines(model, axis, ready),
      slider = SLIDERS.find((one) => one.name === axis);
    const series = THRESHOLDS.map(([, name, look, read]) => ({
      name,
      kind: "line",
      look,
      points: lines.points.map((row) => [row.size, read(row)]).filter(([, P]) => P > 0),
    })).filter((one) => one.points.length);
    const all = series.flatMap((one) => one.points.map(([, P]) => P));
    const low = Math.max(SLIDERS[0].low, Math.min(...all, model.P) / 3),
      high = Math.min(SLIDERS[0].high, Math.max(...all, model.P) * 3);
    const spec = {
      title: `Thresholds against ${axis}`,
      x: { label: slider.label, log: true, low: slider.low, high: slider.high },
      y: { label: "P, training sequences", log: true, low, high },
      series,
    };
    const grid = `${pythonModel(model, "no P")}.grid(${axis}=[${lines.points.map((row) => row.size).join(", ")}])`;
    const note = lines.failed
      ? `No answer at ${lines.failed} of the sizes: the search failed there.`
      : lines.done
        ? ""
        : "Computing …";
    return { spec, cross: axis, python: `import phasekit; phasekit.transition_table(${grid})`, note, unfinished: !lines.done };
  };
}

function matrixView(model) {
  const [pooling, copying] = orderNames(model),
    state = minima(model)[0],
    weights = attention(model, state, MATRIX_SIZE),
    size = weights.length,
    all = weights.flat();
  const low = Math.min(0, ...all),
    high = Math.max(...all, 1e-12),
    cell = 240 / size;
  const svg = svgElement("svg", {
    viewBox: "0 0 460 300",
    role: "img",
    class: "chart",
    "aria-label": `Attention matrix of the lowest minimum, first ${size} positions: weight ${written(weights[1][0])} on the token before, ${written(weights[1][1])} elsewhere`,
  });
  weights.forEach((row, i) =>
    row.forEach((weight, j) =>
      svg.append(
        svgElement("rect", {
          x: 62 + j * cell,
          y: 12 + i * cell,
          width: cell + 0.3,
          height: cell + 0.3,
          fill: shade((weight - low) / (high - low)),
        }),
      ),
    ),
  );
  svg.append(svgElement("text", { x: 182, y: 270, "text-anchor": "middle", class: "label" }, "key position"));
  svg.append(
    svgElement(
      "text",
      { x: 48, y: 132, "text-anchor": "middle", transform: "rotate(-90 48 132)", class: "label" },
      "query position",
    ),
  );
  for (let k = 0; k < 40; k++)
    svg.append(svgElement("rect", { x: 330, y: 12 + 6 * (39 - k), width: 14, height: 6.3, fill: shade(k / 39) }));
  svg.append(
    svgElement("text", { x: 350, y: 20 }, written(high)),
    svgElement("text", { x: 350, y: 252 }, written(low)),
    svgElement("text", { x: 322, y: 280, class: "label" }, "weight"),
  );
  const rows = [
    ["entry", "weight"],
    ["the token before (copied)", weights[1][0]],
    ["any other", weights[1][1]],
  ];
  return {
    svg,
    rows,
    note: model.L > size ? `The first ${size} of ${model.L} positions.` : "",
    python: `import phasekit; a = phasekit.find_minima(${pythonModel(model)}).branch(0)["order_parameters"]; a["${pooling}"] / ${model.L} + a["${copying}"], a["${pooling}"] / ${model.L}`,
  };
}

/** A colour between dark blue and yellow, told apart by everybody (cividis). */
function shade(x) {
  const stops = [
      [0, 34, 78],
      [64, 77, 107],
      [124, 123, 120],
      [187, 173, 108],
      [254, 232, 56],
    ],
    t = Math.min(Math.max(x, 0), 1) * 4,
    k = Math.min(Math.floor(t), 3);
  return `rgb(${stops[k].map((from, i) => Math.round(from + (stops[k + 1][i] - from) * (t - k))).join(",")})`;
}

/** Why a view has nothing to show, where that is no failure. */
class Inapplicable extends Error {}

function rowsView(model, ready, state) {
  const z = logitsOf(state.z),
    count = 81,
    lambdas = Array.from({ length: count }, (_, k) => 10 ** (-1 + (4 * k) / (count - 1)));
  if (model.score === "linear")
    throw new Inapplicable("Linear attention's weights are the logits themselves: they grow with λ and don't saturate");
  const winner = z.indexOf(Math.max(...z)),
    weights = lambdas.map((lambda) =>
      rowWeights(
        model.score,
        model.parameters,
        z.map((x) => lambda * x),
      ),
    );
  const mass = weights.map((row) => row.reduce((sum, w, j) => sum + (j === winner ? 0 : w), 0)),
    bounds = lambdas.map((lambda) => massBounds(model.score, model.parameters, z, lambda));
  const series = [
    {
      name: "mass off the winner",
      kind: "line",
      look: "first",
      points: lambdas.map((lambda, k) => [lambda, mass[k]]),
    },
  ];
  z.forEach((x, j) => {
    if (j !== winner)
      series.push({
        name: "weights of other keys",
        kind: "line",
        look: "third",
        points: lambdas.map((lambda, k) => [lambda, weights[k][j]]),
      });
  });
  if (bounds[0])
    for (const side of ["low", "high"])
      series.push({
        name: `bounds of the mass (theorem ${bounds[0].theorem})`,
        kind: "line",
        look: "second metastable",
        points: lambdas.map((lambda, k) => [lambda, bounds[k][side]]),
      });
  const spec = {
    title: "Weights of a row as its logits grow",
    x: { label: "magnification λ of the logits", log: true, low: 0.1, high: 1000 },
    y: { label: "weight", log: true, low: 1e-8, high: 1 },
    series,
  };
  const numbers = Object.entries(model.parameters)
    .map(([name, value]) => `:${name}=${value}`)
    .join("");
  const note = bounds[0]
    ? ""
    : "No theorem bounds this row's mass here: only softmax and SSA rows with one winner have one.";
  return {
    spec,
    note,
    python: `import numpy as np, torch, phasekit; phasekit.get_score("${model.score}${numbers}").rows(torch.tensor(np.geomspace(0.1, 1000, ${count})[:, None] * [${z.join(", ")}]))`,
  };
}
