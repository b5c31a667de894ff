"use strict";
// Sorting, filtering and saving of each table. Without this script the tables are there as they are.
for (const section of document.querySelectorAll(".shown")) {
  const table = section.querySelector("table");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const names = heads.map((head) => head.dataset.name);
  const rows = [...body.rows].map((row) => ({ row, texts: [...row.cells].map((cell) => cell.textContent.trim()) }));
  const isMissing = (text) => ["", "*", "**", "..."].includes(text);
  const numberOf = (text) => (text === "" ? NaN : Number(text.replace(/^([+-]) +/, "$1").replace(/%$/, "")));
  const compare = (one, other) => {
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
      rows.sort((one, other) => {
        const [a, b] = [one.texts[column], other.texts[column]];
        // What is missing comes last, whichever way.
        if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b);
        return down ? compare(b, a) : compare(a, b);
      });
      body.append(...rows.map(({ row }) => row));
    });
  });

  const tests = {
    "=": (order) => order === 0, "!=": (order) => order !== 0, "<": (order) => order < 0,
    "<=": (order) => order <= 0, ">": (order) => order > 0, ">=": (order) => order >= 0,
  };
  const condition = (word) => {
    const match = /^([^=<>!]+)(!=|<=|>=|=|<|>)(.+)$/.exec(word);
    const column = match ? names.findIndex((name) => name.toLowerCase() === match[1].toLowerCase()) : -1;
    if (column >= 0) {
      return (texts) => (!isMissing(texts[column]) || match[2] === "!=") && tests[match[2]](compare(texts[column], match[3]));
    }
    const wanted = word.toLowerCase();
    return (texts) => texts.some((text) => text.toLowerCase().includes(wanted));
  };
  const tools = section.querySelector(".tools");
  const filter = tools.querySelector("input");
  const shown = tools.querySelector("output");
  filter.addEventListener("input", () => {
    const conditions = filter.value.split(/\s+/).filter(Boolean).map(condition);
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
