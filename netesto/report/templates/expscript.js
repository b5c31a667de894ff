// Sorting, filtering and saving of each table. Without this script the tables are there as they are.
for (const section of document.querySelectorAll(".shown")) {
  const table = section.querySelector("table");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const names = heads.map((head) => head.dataset.name);
  const rows = [...body.rows].map((row) => ({ row, texts: [...row.cells].map((cell) => cell.textContent.trim()) }));
  tables.sortable(heads, (column, order) => {
    rows.sort((one, other) => order(one.texts[column], other.texts[column]));
    body.append(...rows.map(({ row }) => row));
  });

  const tools = section.querySelector(".tools");
  const filter = tools.querySelector("input");
  const shown = tools.querySelector("output");
  filter.addEventListener("input", () => {
    const conditions = tables.conditions(filter.value, heads);
    let count = 0;
    for (const { row, texts } of rows) {
      const found = conditions.every((each) => each(texts));
      row.classList.toggle("filtered", !found);
      count += found;
    }
    shown.textContent = conditions.length ? `${count} of ${rows.length} rows` : "";
  });
  tools.addEventListener("submit", (event) => event.preventDefault());

  tools.querySelector(".save").addEventListener("click", (event) => {
    const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const kept = rows.filter(({ row }) => !row.classList.contains("filtered")).map(({ texts }) => texts);
    const csv = [names, ...kept].map((cells) => cells.map(quoted).join(",") + "\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    link.download = `${event.target.dataset.name}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  tools.hidden = false;
}
