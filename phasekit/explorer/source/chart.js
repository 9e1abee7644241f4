// Line charts in SVG, with the table behind each. Colours are those of the style sheet, so that themes change them.

const SVG = "http://www.w3.org/2000/svg";
const CHART = { width: 460, height: 300, left: 62, right: 14, top: 24, bottom: 46 };

function svgElement(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  for (const child of children) element.append(child);
  return element;
}

/** A number as people write it: at most five digits. */
function written(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e6 || size < 1e-4 ? x.toExponential(3) : String(Number(x.toPrecision(5)));
}

function scaleOf({ log, low, high }, from, to) {
  const a = log ? Math.log(low) : low,
    b = log ? Math.log(high) : high;
  const map = (x) => from + (((log ? Math.log(x) : x) - a) / (b - a)) * (to - from);
  map.invert = (pixel) => {
    const y = a + ((pixel - from) / (to - from)) * (b - a);
    return log ? Math.exp(y) : y;
  };
  return map;
}

/** Round numbers between the ends of an axis, about five of them. */
function ticksOf({ log, low, high }) {
  if (log) {
    const decades = Math.log10(high / low),
      steps = decades > 6 ? [2] : decades > 2.2 ? [1] : [1, 2, 5],
      result = [];
    for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d++) {
      if (steps[0] === 2 && d % 2) continue;
      for (const s of steps) {
        const x = (steps[0] === 2 ? 1 : s) * 10 ** d;
        if (x >= low * 0.999 && x <= high * 1.001) result.push(x);
      }
    }
    return result;
  }
  const raw = (high - low) / 4,
    unit = 10 ** Math.floor(Math.log10(raw)),
    step = unit * [1, 2, 5, 10].find((s) => s * unit >= raw),
    result = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-9; x += step)
    result.push(Math.abs(x) < step * 1e-9 ? 0 : x);
  return result;
}

function tickLabel(x, log) {
  if (log && (x >= 1e5 || x < 1e-3)) {
    const power = Math.floor(Math.log10(x) + 1e-9),
      digits = "⁰¹²³⁴⁵⁶⁷⁸⁹",
      mantissa = Math.round(x / 10 ** power);
    return `${mantissa === 1 ? "" : mantissa + "·"}10${String(power)
      .replace("-", "⁻")
      .replace(/\d/g, (d) => digits[d])}`;
  }
  return String(Number(x.toPrecision(4))).replace("-", "−");
}

/**
 * Draw a chart.
 * @param spec {title, x, y: {label, log, low, high}, series: [{name, kind: "line" | "points", look, points}], marks: [{x, label, before: whether it stands left of x}]}
 * @returns {svg, x, y} with the scales, for what moves on top of it
 */
function drawChart(spec) {
  const { width, height, left, right, top, bottom } = CHART;
  const x = scaleOf(spec.x, left, width - right),
    y = scaleOf(spec.y, height - bottom, top);
  const svg = svgElement("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": spec.title,
    class: "chart",
  });
  const clip = `clip-${(drawChart.count = (drawChart.count || 0) + 1)}`;
  svg.append(
    svgElement(
      "clipPath",
      { id: clip },
      svgElement("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom }),
    ),
  );
  for (const tick of ticksOf(spec.x)) {
    svg.append(
      svgElement("line", { x1: x(tick), x2: x(tick), y1: height - bottom, y2: height - bottom + 4, class: "axis" }),
    );
    svg.append(
      svgElement("text", { x: x(tick), y: height - bottom + 17, "text-anchor": "middle" }, tickLabel(tick, spec.x.log)),
    );
  }
  for (const tick of ticksOf(spec.y)) {
    svg.append(svgElement("line", { x1: left - 4, x2: left, y1: y(tick), y2: y(tick), class: "axis" }));
    svg.append(svgElement("text", { x: left - 7, y: y(tick) + 4, "text-anchor": "end" }, tickLabel(tick, spec.y.log)));
  }
  svg.append(
    svgElement("path", { d: `M${left},${top}V${height - bottom}H${width - right}`, class: "axis", fill: "none" }),
  );
  svg.append(
    svgElement(
      "text",
      { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle", class: "label" },
      spec.x.label,
    ),
  );
  const middle = (top + height - bottom) / 2;
  svg.append(
    svgElement(
      "text",
      { x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})`, class: "label" },
      spec.y.label,
    ),
  );
  const inside = svgElement("g", { "clip-path": `url(#${clip})` });
  for (const { x: at, label, before } of spec.marks || []) {
    inside.append(svgElement("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, class: "mark" }));
    const side = { x: x(at) + (before ? 2 : -2), "text-anchor": before ? "end" : "start" };
    if (label) svg.append(svgElement("text", { ...side, y: top - 6, class: "mark-label" }, label)); // above all points
  }
  for (const series of spec.series) drawSeries(inside, series, x, y);
  svg.append(inside);
  return { svg, x, y };
}

function drawSeries(group, series, x, y) {
  const seen = series.points.filter(
    ([a, b]) => Number.isFinite(a) && Number.isFinite(b) && Number.isFinite(y(b)) && Number.isFinite(x(a)),
  );
  if (series.kind === "points") {
    for (const [a, b] of seen)
      group.append(
        svgElement("circle", { cx: x(a), cy: y(b), r: series.radius || 3.2, class: `point ${series.look}` }),
      );
    return;
  }
  const d = seen.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(2)},${y(b).toFixed(2)}`).join("");
  if (d) group.append(svgElement("path", { d, class: `line ${series.look}`, fill: "none" }));
}

/** The numbers of a chart as rows [series, x, y]. */
function chartTable(spec) {
  const rows = [["series", spec.x.label, spec.y.label]];
  for (const series of spec.series) for (const [a, b] of series.points) rows.push([series.name, a, b]);
  return rows;
}

function legendOf(series) {
  const list = document.createElement("ul");
  list.className = "legend";
  const names = new Set();
  for (const { name, look, kind } of series) {
    if (!name || names.has(name)) continue;
    names.add(name);
    const item = document.createElement("li"),
      key = svgElement("svg", { viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true" });
    key.append(
      kind === "points"
        ? svgElement("circle", { cx: 13, cy: 5, r: 3.2, class: `point ${look}` })
        : svgElement("path", { d: "M1,5H25", class: `line ${look}`, fill: "none" }),
    );
    item.append(key, name);
    list.append(item);
  }
  return list;
}
