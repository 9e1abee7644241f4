// Controls and panels: one state, drawn again where it changed. While P is dragged only what depends on P is.

let state = startState(),
  refused = [],
  drawn = new Map(),
  waiting = false,
  frames = [];
const byId = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Change the state, write it to the address, and draw at the next frame. */
function change(changes) {
  Object.assign(state, changes);
  if (!waiting) {
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const start = performance.now();
      draw();
      frames.push(performance.now() - start);
      if (frames.length > 600) frames.shift();
    });
  }
}

let addressTimer = 0;
function writeAddress() {
  clearTimeout(addressTimer); // browsers refuse more than a hundred changes of the address in half a minute
  addressTimer = setTimeout(() => history.replaceState(null, "", `#${toHash(state)}`), 150);
}

/** A slider whose steps are even in the logarithm, with a number beside it. */
function logSlider({ name, label, low, high, whole }, read, write) {
  const id = `control-${name}`,
    steps = 1000;
  const toValue = (k) => {
    const x = low * (high / low) ** (k / steps);
    return whole ? Math.round(x) : Number(x.toPrecision(4));
  };
  const toStep = (x) => Math.round((Math.log(x / low) / Math.log(high / low)) * steps);
  const range = element("input", { type: "range", id, min: 0, max: steps, step: 1 }),
    number = element("input", { type: "number", step: "any", min: low, max: high });
  const allowed = `from ${written(low)} to ${written(high)}`;
  number.setAttribute("aria-label", `${label}, as a number ${allowed}`);
  number.title = allowed;
  range.addEventListener("input", () => write(toValue(Number(range.value))));
  number.addEventListener("change", () => {
    const x = Number(number.value);
    const fits = number.value !== "" && x >= low && x <= high;
    number.setCustomValidity(fits ? "" : allowed);
    if (fits) write(whole ? Math.round(x) : x);
    else number.reportValidity(); // what was typed stays there, with the reason, until it is mended
  });
  const refresh = () => {
    const x = read();
    range.value = toStep(x);
    range.setAttribute("aria-valuetext", written(x));
    if (document.activeElement === number) return;
    number.value = x;
    number.setCustomValidity("");
  };
  const row = element(
    "div",
    { className: "control" },
    Object.assign(document.createElement("label"), { htmlFor: id, textContent: label }),
    range,
    number,
  );
  return { row, refresh };
}

let controls = [];
function buildControls() {
  const box = byId("controls");
  box.replaceChildren();
  controls = [];
  const add = (control, parent = box) => {
    parent.append(control.row);
    controls.push(control);
  };
  for (const which of ["score", "second"]) {
    const select = element("select", { id: `control-${which}` }),
      numbersOf = which === "score" ? "parameters" : "secondParameters";
    if (which === "second") select.append(element("option", { value: "none", textContent: "nothing" }));
    for (const score of PAGE.scores) select.append(element("option", { value: score.name, textContent: score.label }));
    select.value = state[which];
    select.addEventListener("change", () => {
      change({ [which]: select.value, [numbersOf]: select.value === "none" ? {} : completed(select.value, {}) });
      buildControls();
      byId(`control-${which}`).focus();
    });
    const label = element("label", {
      htmlFor: `control-${which}`,
      textContent: which === "score" ? "Score" : "Beside it",
    });
    box.append(element("div", { className: "control" }, label, select));
    if (state[which] !== "none")
      for (const number of scoreOf(state[which]).numbers)
        add(
          logSlider(
            {
              ...number,
              name: `${which}-${number.name}`,
              label: `${number.name}${number.description ? `, ${number.description}` : ""}`,
            },
            () => state[numbersOf][number.name],
            (x) => change({ [numbersOf]: { ...state[numbersOf], [number.name]: x } }),
          ),
        );
  }
  for (const slider of SLIDERS)
    add(
      logSlider(
        slider,
        () => state[slider.name],
        (x) => change({ [slider.name]: x }),
      ),
    );
  const inputs = element("select", { id: "control-inputs" });
  for (const name of INPUTS) inputs.append(element("option", { value: name, textContent: name }));
  inputs.value = state.inputs;
  inputs.addEventListener("change", () => change({ inputs: inputs.value }));
  box.append(
    element(
      "div",
      { className: "control" },
      Object.assign(document.createElement("label"), { htmlFor: "control-inputs", textContent: "Inputs" }),
      inputs,
    ),
  );
  const logits = element("input", { id: "control-z", value: state.z });
  logits.addEventListener("change", () => {
    if (logitsOf(logits.value)) change({ z: logits.value });
    else logits.value = state.z;
  });
  box.append(
    element(
      "div",
      { className: "control" },
      Object.assign(document.createElement("label"), {
        htmlFor: "control-z",
        textContent: "Logits of the magnified row",
      }),
      logits,
    ),
  );
}

/** Build the panels: one row a view, one cell a score. */
function buildPanels() {
  const main = byId("views");
  main.replaceChildren();
  drawn = new Map();
  for (const view of VIEWS) {
    const section = element("section", { className: "view" });
    section.setAttribute("aria-labelledby", `title-${view.id}`);
    section.append(element("h2", { id: `title-${view.id}`, textContent: view.title }));
    const cells = element("div", { className: "cells" });
    for (const second of state.second === "none" ? [false] : [false, true])
      cells.append(element("div", { className: "cell", id: `cell-${view.id}-${second ? 2 : 1}` }));
    section.append(cells);
    main.append(section);
  }
}

function draw() {
  if (document.querySelectorAll(".cell").length !== VIEWS.length * (state.second === "none" ? 1 : 2)) buildPanels();
  controls.forEach((control) => control.refresh());
  for (const second of state.second === "none" ? [false] : [false, true])
    for (const view of VIEWS) drawCell(view, second);
  const summary = [false, ...(state.second === "none" ? [] : [true])].map((second) =>
    summaryOf(modelOf(state, second)),
  );
  byId("summary").textContent = summary.join("  ·  ");
  byId("refused").textContent = refused.length
    ? `Not understood in the link, and left as it was: ${refused.join("; ")}.`
    : "";
  drawBeyond();
  writeAddress();
}

/** Name the commands for what this page doesn't compute. */
function drawBeyond() {
  const box = byId("beyond"),
    commands = commandsBeyond(modelOf(state)),
    text = JSON.stringify(commands);
  if (box.dataset.shown === text) return;
  box.dataset.shown = text;
  const lines = commands.map(([what, command]) =>
    element("li", {}, `${what}: `, element("code", { textContent: command })),
  );
  box.replaceChildren("What this page doesn't compute of this model, the command line does:", element("ul", {}, ...lines));
}

function summaryOf(model) {
  const label = scoreOf(model.score).label;
  try {
    const found = transitions(model),
      best = minima(model)[0];
    const names = { P_star: "P*", P_x: "P×", P1: "P₁", P2: "P₂" };
    const places = Object.entries(names)
      .filter(([name]) => found[name])
      .map(([name, symbol]) => `${symbol} = ${written(found[name])}`)
      .join(", ");
    const kind = {
      first: "a first-order jump",
      second: "a second-order onset",
      crossover: "a smooth crossover",
      none: "no passage",
    }[found.order];
    return `${label}: ${kind}${places ? `, ${places}` : ""}; at P = ${written(model.P)} ${Object.entries(best.order)
      .map(([name, value]) => `${name} = ${written(value)}`)
      .join(", ")}, loss = ${written(best.loss)}`;
  } catch (error) {
    return `${label}: no answer: ${error.message}`;
  }
}

/** What a view's picture depends on, besides its own P. */
function keyOf(view, model) {
  const still = view.id.startsWith("diagram") || view.id === "rows" ? { ...model, P: 0 } : model;
  return JSON.stringify([still, view.id === "rows" ? state.z : ""]);
}

function drawCell(view, second) {
  const cell = byId(`cell-${view.id}-${second ? 2 : 1}`),
    model = modelOf(state, second),
    id = `${view.id}-${second}`;
  const before = drawn.get(id),
    key = keyOf(view, model);
  if (before && before.key === key && before.moveTo && before.moveTo(model)) return;
  if (
    before &&
    before.moveTo &&
    before.still === JSON.stringify({ ...model, P: 0 }) &&
    view.id !== "rows" &&
    before.moveTo(model)
  )
    return;
  const open = cell.querySelector("details")?.open;
  const entry = { key, still: JSON.stringify({ ...model, P: 0 }) };
  drawn.set(id, entry);
  const name = element("h3", {
    textContent:
      scoreOf(model.score).label +
      Object.entries(model.parameters)
        .map(([number, value]) => `, ${number} = ${written(value)}`)
        .join(""),
  });
  const about = element("p", {
    className: "estimator",
    textContent: view.exact
      ? "Exact weights of the row: no estimator enters."
      : `Map estimator.${caveatOf(model)}`,
  });
  let result;
  try {
    result = view.compute(
      model,
      () => {
        drawn.delete(id);
        change({});
      },
      state,
    );
  } catch (error) {
    const why = error instanceof Inapplicable ? `${error.message}.` : `No answer: ${error.message}.`;
    cell.replaceChildren(name, element("p", { className: "failed", role: "status", textContent: why }), about);
    return;
  }
  const chart = result.spec ? drawChart(result.spec) : null,
    svg = chart ? chart.svg : result.svg,
    rows = result.rows || chartTable(result.spec);
  if (result.cross) addCross(entry, chart, result.cross, result.spec, model);
  if (result.moves) addHandle(entry, chart, result.spec, model);
  const note = element("p", { className: "note", textContent: result.note || "" });
  const details = element(
    "details",
    { open: Boolean(open) },
    element("summary", { textContent: "Numbers and downloads" }),
  );
  const fill = () => {
    if (details.dataset.filled) return;
    details.dataset.filled = "yes";
    if (result.unfinished) details.append(element("p", { textContent: "Not yet: sizes are still being computed." }));
    else details.append(actionsOf(view, svg, rows, result.python), scrolling(tableOf(rows), view.title));
  };
  details.addEventListener("toggle", () => {
    if (details.open) fill();
  });
  if (open) fill();
  cell.replaceChildren(name, svg, ...(result.spec ? [legendOf(result.spec.series)] : []), note, about, details);
}

function scrolling(table, title) {
  const box = element("div", { className: "table", tabIndex: 0 }, table);
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `Numbers: ${title}`);
  return box;
}

const caveatOf = (model) =>
  (PAGE.caveats[`${model.score === "linear" ? "linear" : "rows"} ${model.inputs}`] || [])
    .map((caveat) => ` ${caveat}.`)
    .join("");

function actionsOf(view, svg, rows, python) {
  const box = element("div", { className: "actions" });
  const button = (text, act) => box.append(element("button", { type: "button", textContent: text, onclick: act }));
  button("Save SVG", () => download(`phasekit-${view.id}.svg`, "image/svg+xml", svgText(svg)));
  button("Save CSV", () => download(`phasekit-${view.id}.csv`, "text/csv", csvOf(rows)));
  const line = element("input", { className: "python", readOnly: true, value: python });
  line.setAttribute("aria-label", "The line of Python that makes the same numbers");
  box.append(line);
  return box;
}

/** The upright line at the model's P, which is dragged or moved with the arrow keys. */
function addHandle(entry, chart, spec, model) {
  const { top, bottom, height } = CHART,
    handle = svgElement("g", {
      class: "handle",
      tabindex: 0,
      role: "slider",
      "aria-label": "P, training sequences",
      "aria-valuemin": SLIDERS[0].low,
      "aria-valuemax": SLIDERS[0].high,
    });
  handle.append(
    svgElement("rect", { x: -9, y: top, width: 18, height: height - top - bottom, class: "grip" }),
    svgElement("line", { x1: 0, x2: 0, y1: top, y2: height - bottom, class: "now" }),
  );
  chart.svg.append(handle);
  entry.moveTo = ({ P }) => {
    if (P < spec.x.low || P > spec.x.high) return false;
    handle.setAttribute("transform", `translate(${chart.x(P)},0)`);
    handle.setAttribute("aria-valuenow", P);
    handle.setAttribute("aria-valuetext", `P = ${written(P)}`);
    return true;
  };
  entry.moveTo(model);
  draggable(handle, chart.svg, (px) => change({ P: within(SLIDERS[0], chart.x.invert(px)) }));
  handle.addEventListener("keydown", (event) =>
    stepKeys(event, { ArrowRight: ["P", 1], ArrowUp: ["P", 1], ArrowLeft: ["P", -1], ArrowDown: ["P", -1] }),
  );
}

/** The cross of a phase diagram: its size and the model's P. */
function addCross(entry, chart, axis, spec, model) {
  const cross = svgElement("g", {
    class: "handle",
    tabindex: 0,
    role: "slider",
    "aria-label": `${axis} and P: arrow keys move both`,
    "aria-valuemin": SLIDERS[0].low,
    "aria-valuemax": SLIDERS[0].high,
  });
  cross.append(
    svgElement("circle", { r: 13, class: "grip" }),
    svgElement("path", { d: "M-8,0H8M0,-8V8", class: "now" }),
  );
  chart.svg.append(cross);
  entry.moveTo = (now) => {
    if (now.P < spec.y.low || now.P > spec.y.high) return false;
    cross.setAttribute("transform", `translate(${chart.x(now[axis])},${chart.y(now.P)})`);
    cross.setAttribute("aria-valuenow", now.P);
    cross.setAttribute("aria-valuetext", `${axis} = ${now[axis]}, P = ${written(now.P)}`);
    return true;
  };
  entry.moveTo(model);
  const slider = SLIDERS.find((one) => one.name === axis);
  draggable(cross, chart.svg, (px, py) =>
    change({ [axis]: within(slider, chart.x.invert(px)), P: within(SLIDERS[0], chart.y.invert(py)) }),
  );
  cross.addEventListener("keydown", (event) =>
    stepKeys(event, { ArrowRight: [axis, 1], ArrowLeft: [axis, -1], ArrowUp: ["P", 1], ArrowDown: ["P", -1] }),
  );
}

const within = ({ low, high, whole }, x) => {
  const value = Math.min(Math.max(x, low), high);
  return whole ? Math.round(value) : Number(value.toPrecision(5));
};

function stepKeys(event, keys) {
  const move = keys[event.key];
  if (!move) return;
  event.preventDefault();
  const [name, sign] = move,
    slider = SLIDERS.find((one) => one.name === name),
    factor = event.shiftKey ? 1.25 : 1.02;
  const next = within(slider, state[name] * factor ** sign);
  change({ [name]: slider.whole && next === state[name] ? within(slider, state[name] + sign) : next });
}

function draggable(handle, svg, move) {
  svg.setAttribute("role", "group"); // a picture may hold nothing that one operates
  const place = (event) => {
    const box = svg.getBoundingClientRect(),
      ratio = CHART.width / box.width;
    move((event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio);
  };
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    event.preventDefault();
    handle.focus();
  });
  handle.addEventListener("pointermove", (event) => {
    if (handle.hasPointerCapture(event.pointerId)) place(event);
  });
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light colours" : "Dark colours";
}

function start() {
  ({ state, refused } = fromHash(location.hash));
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  byId("theme").addEventListener("click", () =>
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
  );
  byId("reset").addEventListener("click", () => {
    state = fromHash("").state;
    refused = [];
    buildControls();
    change({});
  });
  byId("link").addEventListener("click", () => {
    history.replaceState(null, "", `#${toHash(state)}`);
    navigator.clipboard?.writeText(location.href).catch(() => {});
    byId("link-status").textContent = "The address now restores this state.";
  });
  addEventListener("hashchange", () => {
    ({ state, refused } = fromHash(location.hash));
    buildControls();
    change({});
  });
  buildControls();
  draw();
}

start();
