// A click sorts a table, and long tables have a filter.
const number = (text) => {
  const found = text.replaceAll(",", "").match(/^[+−-]?\d*\.?\d+(e[+-]?\d+)?/i);
  return found ? Number(found[0].replace("−", "-")) : NaN;
};
const compare = (a, b) => {
  const [x, y] = [number(a), number(b)];
  if (Number.isNaN(x) && Number.isNaN(y)) return a.localeCompare(b);
  return Number.isNaN(x) ? 1 : Number.isNaN(y) ? -1 : x - y;
};
const LONG = 12;
for (const table of document.querySelectorAll("main table")) {
  const body = table.tBodies[0];
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
      const text = (row) => row.cells[column]?.textContent.trim() ?? "";
      const rows = [...body.rows].sort((a, b) => direction * compare(text(a), text(b)));
      body.append(...rows);
    });
  });
  if (!body || body.rows.length < LONG || !table.tHead) continue;
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Filter rows";
  field.setAttribute("aria-label", "Filter rows of the table below");
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
    }
  });
  table.parentElement.before(field);
}
