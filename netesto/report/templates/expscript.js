// Sorting, filtering and saving of each table. Without this script the tables are there as they are.
for (const section of document.querySelectorAll(".shown")) {
  const scroll = section.querySelector(".scroll");
  const holder = scroll.querySelector(".large");
  const large = holder && virtual.open(holder);
  const table = large ? large.table : scroll.querySelector("table");
  const heads = [...table.tHead.rows[0].cells];
  const names = heads.map((head) => head.dataset.name);

  const body = table.tBodies[0];
  const rows = large
    ? large.lines.map((line) => ({ line }))
    : [...body.rows].map((row) => ({ row, texts: [...row.cells].map((cell) => cell.textContent.trim()) }));
  const textsOf = (row) => row.texts ??= virtual.textsOf(row.line);
  const showLines = large && virtual.shower(scroll, table);
  let kept = rows;
  const show = () => {
    if (large) showLines(kept.map(({ line }) => line));
    else body.replaceChildren(...kept.map(({ row }) => row));
  };
  if (large) show();

  tables.sortable(heads, (column, order) => {
    const one = new Map(rows.map((row) => [row, textsOf(row)[column]]));
    rows.sort((a, b) => order(one.get(a), one.get(b)));
    keep();
  });

  const tools = section.querySelector(".tools");
  const filter = tools.querySelector("input");
  const shown = tools.querySelector("output");
  const count = (number) => number.toLocaleString("en");
  const keep = () => {
    const conditions = tables.conditions(filter.value, heads);
    kept = conditions.length ? rows.filter((row) => conditions.every((each) => each(textsOf(row)))) : rows;
    show();
    shown.textContent = conditions.length ? `${count(kept.length)} of ${count(rows.length)} rows`
      : large ? `${count(rows.length)} rows; the browser's own search finds only those in view` : "";
  };
  filter.addEventListener("input", () => { keep(); scroll.scrollTop = 0; });
  tools.addEventListener("submit", (event) => event.preventDefault());
  keep();

  tools.querySelector(".save").addEventListener("click", (event) => {
    const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const csv = [names, ...kept.map(textsOf)].map((cells) => cells.map(quoted).join(",") + "\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    link.download = `${event.target.dataset.name}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  tools.hidden = false;
}
