// Saving what a view shows: SVG with its styles written in, CSV, and the line of Python that makes the same numbers.

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const csvOf = (rows) =>
  rows
    .map((row) =>
      row
        .map((cell) => (/[",\n]/.test(String(cell)) ? `"${String(cell).replace(/"/g, '""')}"` : String(cell)))
        .join(","),
    )
    .join("\n") + "\n";

/** The picture alone: what the style sheet says is written into each element. */
function svgText(svg) {
  const copy = svg.cloneNode(true),
    originals = [svg, ...svg.querySelectorAll("*")],
    copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((element, k) => {
    const style = getComputedStyle(element);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "opacity"])
      copies[k].setAttribute(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", SVG);
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  return new XMLSerializer().serializeToString(copy);
}

function tableOf(rows, most = 400) {
  const table = document.createElement("table"),
    [head, ...body] = rows;
  const line = (cells, tag) => {
    const row = document.createElement("tr");
    for (const cell of cells) {
      const one = document.createElement(tag);
      if (tag === "th") one.scope = "col";
      one.textContent = typeof cell === "number" ? written(cell) : String(cell ?? "–");
      row.append(one);
    }
    return row;
  };
  table.createTHead().append(line(head, "th"));
  const filled = table.createTBody();
  for (const row of body.slice(0, most)) filled.append(line(row, "td"));
  if (body.length > most) filled.append(line([`… and ${body.length - most} more rows: see the CSV`], "td"));
  return table;
}
