// Roots and extrema in one unknown.

/** Root of f between a and b, whose values must differ in sign: Brent's method, to rounding. */
function rootBetween(f, a, b) {
  let fa = f(a),
    fb = f(b);
  if (fa === 0) return a;
  if (fb === 0) return b;
  if (!(fa * fb < 0)) throw new Error("the search failed: no change of sign");
  let c = a,
    fc = fa,
    step = b - a,
    before = step;
  for (let k = 0; k < 200; k++) {
    if (fb * fc > 0) {
      c = a;
      fc = fa;
      step = before = b - a;
    }
    if (Math.abs(fc) < Math.abs(fb)) {
      a = b;
      b = c;
      c = a;
      fa = fb;
      fb = fc;
      fc = fa;
    }
    const tolerance = 2.3e-16 * Math.abs(b),
      middle = (c - b) / 2;
    if (Math.abs(middle) <= tolerance || fb === 0) return b;
    if (Math.abs(before) >= tolerance && Math.abs(fa) > Math.abs(fb)) {
      let p, q;
      const s = fb / fa;
      if (a === c) {
        p = 2 * middle * s;
        q = 1 - s;
      } else {
        const r = fb / fc,
          w = fa / fc;
        p = s * (2 * middle * w * (w - r) - (b - a) * (r - 1));
        q = (w - 1) * (r - 1) * (s - 1);
      }
      if (p > 0) q = -q;
      else p = -p;
      if (2 * p < Math.min(3 * middle * q - Math.abs(tolerance * q), Math.abs(before * q))) {
        before = step;
        step = p / q;
      } else {
        step = before = middle;
      }
    } else {
      step = before = middle;
    }
    a = b;
    fa = fb;
    b += Math.abs(step) > tolerance ? step : Math.sign(middle) * tolerance;
    fb = f(b);
  }
  throw new Error("the search failed: a root didn't settle");
}

/** Root of a rising function given as (value, slope), between low and high: Newton's method, halving where it leaves. */
function newtonBetween(f, low, high, start) {
  let x = Math.min(Math.max(start, low), high);
  for (let k = 0; k < 200; k++) {
    const [value, slope] = f(x);
    if (value === 0) return x;
    if (value < 0) low = x;
    else high = x;
    const step = x - value / slope;
    const next = step >= low && step <= high ? step : (low + high) / 2;
    const moved = Math.abs(next - x);
    x = next;
    if (moved <= 4e-16 * Math.abs(x)) break;
  }
  return x;
}

/** Place of the smallest value of f between a and b: golden sections. */
function lowestBetween(f, a, b) {
  const ratio = (Math.sqrt(5) - 1) / 2;
  let x = b - ratio * (b - a),
    y = a + ratio * (b - a),
    fx = f(x),
    fy = f(y);
  for (let k = 0; k < 90 && Math.abs(b - a) > 1e-12 * Math.abs(a + b); k++) {
    if (fx < fy) {
      b = y;
      y = x;
      fy = fx;
      x = b - ratio * (b - a);
      fx = f(x);
    } else {
      a = x;
      x = y;
      fx = fy;
      y = a + ratio * (b - a);
      fy = f(y);
    }
  }
  return (a + b) / 2;
}

/** Places where f changes sign, in order, given its values at nodes; pairs that hide between two nodes are found, too. */
function signChanges(f, nodes, values) {
  const roots = [];
  for (let k = 0; k + 1 < nodes.length; k++) {
    if (values[k] * values[k + 1] < 0) roots.push(rootBetween(f, nodes[k], nodes[k + 1]));
    const near =
      k > 0 && Math.abs(values[k]) <= Math.abs(values[k - 1]) && Math.abs(values[k]) <= Math.abs(values[k + 1]);
    if (near && values[k - 1] * values[k] > 0 && values[k] * values[k + 1] > 0) {
      const sign = Math.sign(values[k]);
      const x = lowestBetween((u) => sign * f(u), nodes[k - 1], nodes[k + 1]);
      if (sign * f(x) < 0) roots.push(rootBetween(f, nodes[k - 1], x), rootBetween(f, x, nodes[k + 1]));
    }
  }
  return roots.sort((a, b) => a - b);
}
