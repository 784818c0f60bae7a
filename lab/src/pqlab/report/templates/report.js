"use strict";
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
      const rows = [...body.rows].map((row, index) => ({ row, index, key: row.cells[column].dataset.s }));
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
// A link into a closed part opens it, and so does printing.
function reveal() {
  const target = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.fold")) part.open = true;
});
