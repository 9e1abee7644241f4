// What the page shows: one state, kept in the address so that a link restores it.

const INPUTS = ["positional", "token+position", "relative"];
const SLIDERS = [
  { name: "P", label: "P, training sequences", low: 1, high: 1e7, start: 823 },
  { name: "V", label: "V, vocabulary", low: 2, high: 1024, whole: true, start: 8 },
  { name: "L", label: "L, context length", low: 4, high: 4096, whole: true, start: 64 },
  { name: "sigma_w", label: "σ_w, prior of W", low: 0.1, high: 10, start: 1 },
  { name: "sigma_g", label: "σ_g, prior of G", low: 0.1, high: 10, start: 1 },
  { name: "kappa", label: "κ, temperature", low: 0.01, high: 100, start: 1 },
];

function startState() {
  const state = {
    score: "softmax",
    parameters: {},
    second: "linear",
    secondParameters: {},
    inputs: "positional",
    z: "2, 1, 0, -1",
  };
  for (const slider of SLIDERS) state[slider.name] = slider.start;
  return state;
}

const scoreOf = (name) => PAGE.scores.find((score) => score.name === name);

/** Numbers of a score: those given that are in range, else where its sliders begin. */
function completed(name, given) {
  return Object.fromEntries(
    scoreOf(name).numbers.map(({ name: number, start, low, high }) => {
      const value = Number(given[number]);
      return [number, value >= low && value <= high ? value : start];
    }),
  );
}

/** Write a state as the part of an address behind #. */
function toHash(state) {
  const words = new URLSearchParams();
  for (const key of ["score", "second", "inputs", "z", ...SLIDERS.map((slider) => slider.name)])
    words.set(key, state[key]);
  for (const [name, value] of Object.entries(state.parameters)) words.set(`score.${name}`, value);
  for (const [name, value] of Object.entries(state.secondParameters)) words.set(`second.${name}`, value);
  return words.toString();
}

/** Read it back; what is missing, unknown or out of range stays at its start and is named. */
function fromHash(text) {
  const words = new URLSearchParams(text.replace(/^#/, "")),
    state = startState(),
    refused = [];
  for (const key of ["score", "second"]) {
    const name = words.get(key);
    if (name === null) continue;
    if (scoreOf(name) || (key === "second" && name === "none")) state[key] = name;
    else refused.push(`${key} = ${name}`);
  }
  if (words.has("inputs"))
    INPUTS.includes(words.get("inputs"))
      ? (state.inputs = words.get("inputs"))
      : refused.push(`inputs = ${words.get("inputs")}`);
  if (words.has("z")) logitsOf(words.get("z")) ? (state.z = words.get("z")) : refused.push(`z = ${words.get("z")}`);
  for (const { name, low, high, whole } of SLIDERS) {
    if (!words.has(name)) continue;
    const value = Number(words.get(name));
    if (value >= low && value <= high && (!whole || Number.isInteger(value))) state[name] = value;
    else refused.push(`${name} = ${words.get(name)}`);
  }
  const numbers = (key) => {
    const given = Object.fromEntries(
      [...words]
        .filter(([word]) => word.startsWith(`${key}.`))
        .map(([word, value]) => [word.slice(key.length + 1), value]),
    );
    const used = state[key] === "none" ? {} : completed(state[key], given);
    for (const [name, value] of Object.entries(given))
      if (used[name] !== Number(value)) refused.push(`${key}.${name} = ${value}`);
    return used;
  };
  state.parameters = numbers("score");
  state.secondParameters = numbers("second");
  const known = ["score", "second", "inputs", "z", ...SLIDERS.map(({ name }) => name)];
  for (const [word, value] of words)
    if (!known.includes(word) && !/^(score|second)\./.test(word)) refused.push(`${word} = ${value}`);
  return { state, refused };
}

/** Two to twelve logits, separated by commas; null if they aren't. */
function logitsOf(text) {
  const z = text.split(",").map((word) => (word.trim() === "" ? NaN : Number(word)));
  return z.length >= 2 && z.length <= 12 && z.every((x) => Number.isFinite(x) && Math.abs(x) <= 1e3) ? z : null;
}

/** The model of the first or the second score. */
function modelOf(state, second = false) {
  const { P, V, L, sigma_w, sigma_g, kappa, inputs } = state;
  return {
    score: second ? state.second : state.score,
    parameters: second ? state.secondParameters : state.parameters,
    P,
    V,
    L,
    sigma_w,
    sigma_g,
    kappa,
    inputs,
  };
}

/** The same model as a line of Python. */
function pythonModel(model, changes = "") {
  const numbers = Object.entries(model.parameters)
    .map(([name, value]) => `:${name}=${value}`)
    .join("");
  const rest = ["sigma_w", "sigma_g", "kappa"]
    .filter((name) => model[name] !== 1)
    .map((name) => `, ${name}=${model[name]}`)
    .join("");
  const word = model.inputs === "relative" ? "encoding" : "inputs",
    inputs = model.inputs === "positional" ? "" : `, ${word}="${model.inputs}"`;
  return `phasekit.Model(V=${model.V}, L=${model.L}${changes === "no P" ? "" : `, P=${model.P}`}, score="${model.score}${numbers}"${rest}${inputs})`;
}

/** What a command takes to mean the same model, without P. */
function shellModel(model) {
  const word = model.inputs === "relative" ? "encoding" : "inputs";
  const numbers = Object.entries(model.parameters).map(([name, value]) => `--${name} ${value}`);
  const rest = ["sigma_w", "sigma_g", "kappa"]
    .filter((name) => model[name] !== 1)
    .map((name) => `--${name.replace("_", "-")} ${model[name]}`);
  const inputs = model.inputs === "positional" ? [] : [`--${word} ${model.inputs}`];
  return [`--score ${model.score}`, ...numbers, `-V ${model.V} -L ${model.L}`, ...rest, ...inputs].join(" ");
}

/** Commands for what this page doesn't compute, for this model: [what, command]. */
function commandsBeyond(model) {
  const same = shellModel(model),
    plain = shellModel({ ...model, inputs: "positional" }),
    found = model.inputs === "relative" ? [] : [["posterior", `phasekit transitions ${same} --estimator posterior`]];
  if (model.score !== "linear") found.push(["causal mask", `phasekit transitions ${plain} --mask causal`]);
  if (model.score === "softmax") {
    found.push(["Zipf tokens", `phasekit transitions ${plain} --tokens zipf:1.0`]);
    if (model.V >= model.L) found.push(["induction heads", `phasekit transitions ${plain} --task induction`]);
  }
  return found;
}
