// Cost of a run, compared with a run without cache and lock.

const COUNT = new Intl.NumberFormat("en");

/// Fills the body of a table.
///   pace  milliseconds that an uncached row takes; undefined: not known
export function showCosts(body, cost, pace) {
  const isUncached = cost.rows === cost.rowsBaseline;
  const pacedTime = pace && cost.rowsBaseline !== null ? cost.rowsBaseline * pace : null;
  body.replaceChildren(
    costRow("rows", COUNT.format, cost.rows, cost.rowsBaseline),
    costRow("FLOPs", inPrefixes, cost.flops, cost.flopsBaseline),
    costRow("time", inSeconds, cost.milliseconds, isUncached ? cost.milliseconds : pacedTime));
}

/// 3 digits and the prefix of a power of 1,000.
function inPrefixes(value) {
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.max(value, 1)) / 3), 0), 6);
  return `${(value / 1e3 ** power).toPrecision(3)} ${["", "k", "M", "G", "T", "P", "E"][power]}`;
}

export function inSeconds(milliseconds) {
  return milliseconds < 1e3 ? `${milliseconds.toFixed(1)} ms` : `${(milliseconds / 1e3).toFixed(2)} s`;
}

function costRow(name, format, value, baseline) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = name;
  row.append(head);
  const share = baseline ? value / baseline : null;
  for (const text of [format(value), baseline === null ? "–" : format(baseline)]) row.insertCell().textContent = text;
  const cell = row.insertCell();
  cell.textContent = share === null ? "–" : `${(100 * share).toFixed(1)}%`;
  cell.className = "share";
  cell.style.setProperty("--share", Math.min(share ?? 0, 1));
  return row;
}
