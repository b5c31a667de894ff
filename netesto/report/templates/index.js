"use strict";
// Sorting, filtering, folding. Without this script the whole table is there, as it is.
(() => {
  const table = document.querySelector(".index");
  if (!table) return;
  const heads = [...table.tHead.rows[0].cells];
  const names = heads.map((head) => head.dataset.name);
  const numberOf = (text) => {
    const match = /^\s*([+-]?[\d.]+(?:e[+-]?\d+)?)([KMG]?)\s*$/i.exec(text);
    if (!match) return NaN;
    return Number(match[1]) * { "": 1, K: 1e3, M: 1e6, G: 1e9 }[match[2].toUpperCase()];
  };
  const textsOf = (row) => [...row.cells].map((cell, i) =>
    (i === 0 ? cell.textContent.replace("▸", "") : cell.textContent).trim());
  const experiments = [...table.tBodies].map((body) => ({ body, rows: [...body.rows].map(textsOf) }));

  const compare = (one, other) => {
    if (one === "" || other === "") return (one === "") - (other === "");
    const [a, b] = [numberOf(one), numberOf(other)];
    if (!Number.isNaN(a) && !Number.isNaN(b)) return a - b;
    return one.localeCompare(other, "en", { numeric: true });
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      experiments.sort((one, other) => {
        const [a, b] = [one.rows[0][column], other.rows[0][column]];
        // What is not known comes last, whichever way.
        return a === "" || b === "" || !down ? compare(a, b) : compare(b, a);
      });
      table.append(...experiments.map((experiment) => experiment.body));
    });
  });

  const tests = {
    "=": (order) => order === 0, "!=": (order) => order !== 0, "<": (order) => order < 0,
    "<=": (order) => order <= 0, ">": (order) => order > 0, ">=": (order) => order >= 0,
  };
  const condition = (word) => {
    const match = /^([^=<>!]+)(!=|<=|>=|=|<|>)(.+)$/.exec(word);
    const column = match ? names.findIndex((name) => name.toLowerCase() === match[1].toLowerCase()) : -1;
    if (column < 0) {
      const wanted = word.toLowerCase();
      return (row) => row.some((text) => text.toLowerCase().includes(wanted));
    }
    return (row) => (row[column] !== "" || match[2] === "!=") && tests[match[2]](compare(row[column], match[3]));
  };
  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const apply = () => {
    const conditions = filter.value.split(/\s+/).filter(Boolean).map(condition);
    let count = 0;
    for (const { body, rows } of experiments) {
      const found = rows.some((row) => conditions.every((each) => each(row)));
      body.classList.toggle("filtered", !found);
      count += found;
    }
    shown.textContent = conditions.length ? `${count} of ${experiments.length}` : "";
  };
  filter.addEventListener("input", apply);
  filter.form.addEventListener("submit", (event) => event.preventDefault());

  const fold = (body, folded) => {
    body.classList.toggle("folded", folded);
    body.querySelector(".fold")?.setAttribute("aria-expanded", String(!folded));
  };
  for (const { body } of experiments) {
    const button = body.querySelector(".fold");
    if (button) {
      button.hidden = false;
      button.addEventListener("click", () => fold(body, !body.classList.contains("folded")));
    }
    fold(body, true);
  }
  document.getElementById("all-groups").addEventListener("change", (event) => {
    for (const { body } of experiments) fold(body, !event.target.checked);
  });
  table.classList.add("brief");
  document.getElementById("all-columns").addEventListener("change", (event) => {
    table.classList.toggle("brief", !event.target.checked);
  });
  filter.form.hidden = false;
  apply();
})();
