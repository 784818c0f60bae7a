"use strict";
// What a sort compares: its own attribute, or the text where that says the same.
const keyOf = (cell) => cell.dataset.s ?? cell.textContent;
// Sorting: every head of a sortable table becomes a button, so the keyboard reaches it. Missing values stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row, index) => ({ row, index, key: keyOf(row.cells[column]) }));
      const numeric = rows.every(({ key }) => key === "" || !Number.isNaN(Number(key)));
      rows.sort((a, b) => {
        if (a.key === "" || b.key === "") return (a.key === "") - (b.key === "") || a.index - b.index;
        const order = numeric ? Number(a.key) - Number(b.key) : a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
        return (up ? order : -order) || a.index - b.index;
      });
      body.append(...rows.map(({ row }) => row));
    });
  });
}
// Filtering: words must all occur in a row, -word must not, a|b is either. Tables of a few rows need none.
const MIN_FILTERED_ROWS = 9;
function matcher(text) {
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const without = word.length > 1 && word.startsWith("-");
    const choices = (without ? word.slice(1) : word).split("|").filter(Boolean);
    return (row) => choices.some((choice) => row.includes(choice)) !== without;
  });
  return (row) => tests.every((test) => test(row));
}
function addFilter(name, before, rows) {
  if (rows().length < MIN_FILTERED_ROWS) return;
  const box = document.createElement("p");
  box.className = "filter";
  const field = document.createElement("label");
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "mlkem768 -sphincs aesgcm|ascon";
  field.append("Filter ", input);
  input.setAttribute("aria-label", `Filter: ${name}`);
  const count = document.createElement("output");
  box.append(field, count);
  before.before(box);
  const texts = new Map();
  let due = 0;
  function apply() {
    const matches = matcher(input.value);
    let shown = 0;
    for (const row of rows()) {
      if (!texts.has(row)) texts.set(row, (row.dataset.f || row.textContent).toLowerCase());
      row.hidden = !matches(texts.get(row));
      if (!row.hidden) shown += 1;
    }
    count.textContent = input.value.trim() ? `${shown} of ${rows().length}` : "";
  }
  input.addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(apply, 80);
  });
}
for (const table of document.querySelectorAll("table.sortable")) {
  const name = table.caption ? table.caption.firstChild.textContent.trim() : table.id;
  addFilter(name, table.closest(".scroll"), () => [...table.tBodies[0].rows]);
}
for (const list of document.querySelectorAll(".cells")) {
  addFilter("cells", list.firstElementChild, () => [...list.querySelectorAll("details.cell")]);
}
// Two rows of a table side by side; their ratio is arithmetic and no claim.
for (const table of document.querySelectorAll("table[data-pick]")) {
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
  const box = document.createElement("div");
  box.className = "pick";
  const view = document.createElement("table");
  view.id = `${table.id}-view`;
  const choices = ["first", "second"].map((which, place) => {
    const field = document.createElement("label");
    const select = document.createElement("select");
    select.setAttribute("aria-label", `${which} row to compare`);
    rows.forEach((row, index) => select.append(new Option(row.cells[0].textContent.trim(), index)));
    select.selectedIndex = place;
    select.addEventListener("change", draw);
    field.append(select);
    box.append(field);
    return select;
  });
  function cell(tag, text, scope) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (scope) made.scope = scope;
    return made;
  }
  function draw() {
    const [a, b] = choices.map((select) => rows[select.selectedIndex]);
    const caption = cell("caption", "Two rows side by side");
    const top = document.createElement("tr");
    top.append(cell("th", "quantity", "col"), ...[a, b].map((row) => cell("th", row.cells[0].textContent.trim(), "col")),
      cell("th", "second / first", "col"));
    const body = heads.slice(1).map((head, index) => {
      const line = document.createElement("tr");
      const both = [a, b].map((row) => row.cells[index + 1]);
      const [x, y] = both.map((one) => (one.classList.contains("num") ? Number(keyOf(one)) : NaN));
      const ratio = x > 0 && Number.isFinite(y) ? Number((y / x).toPrecision(3)).toString() : "–";
      line.append(cell("th", head, "row"), ...both.map((one) => cell("td", one.textContent.trim())), cell("td", ratio));
      return line;
    });
    view.replaceChildren(caption, top, ...body);
  }
  draw();
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.append(view);
  box.append(scroll);
  const fold = table.closest("details.fold") || table.closest(".scroll");
  fold.before(box);
}
// A link into a closed part opens it, and so does printing.
function reveal() {
  const target = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();
const opened = [];
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.fold:not([open])")) {
    part.open = true;
    opened.push(part);
  }
});
addEventListener("afterprint", () => {
  for (const part of opened.splice(0)) part.open = false;
});
