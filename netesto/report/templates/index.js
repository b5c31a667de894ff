// Sorting, filtering, folding. Without this script the whole table is there, as it is.
(() => {
  const table = document.querySelector(".index");
  if (!table) return;
  const heads = [...table.tHead.rows[0].cells];
  const textsOf = (row) => [...row.cells].map((cell, i) =>
    (i === 0 ? cell.textContent.replace("▸", "") : cell.textContent).trim());
  const experiments = [...table.tBodies].map((body) => ({ body, rows: [...body.rows].map(textsOf) }));

  tables.sortable(heads, (column, order) => {
    experiments.sort((one, other) => order(one.rows[0][column], other.rows[0][column]));
    table.append(...experiments.map((experiment) => experiment.body));
  });

  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const apply = () => {
    const conditions = tables.conditions(filter.value, heads);
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
