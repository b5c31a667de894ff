// Sorting, filtering, folding. Without this script the whole table is there, as it is.
(() => {
  const scroll = document.querySelector(".scroll");
  if (!scroll) return;
  const holder = scroll.querySelector(".large");
  // Of a very large table a row is its texts between tabs: its kind (see between_tabs), its number, status, cells.
  const trimmed = (text) => (/^-?\d+\.\d+$/.test(text) ? text.replace(/\.?0+$/, "") : text);
  const expand = (line, heads) => {
    if (line.startsWith("<")) return line;
    const [kind, exp, ...texts] = line.split("\t");
    const [isGroup, number, place] = [kind === "-", exp.split(".")[0], kind.slice(1)];
    const status = heads[1]?.dataset.name === "status" ? texts[0] : "ok";
    const cells = [...heads].slice(1).map((head, i) => {
      const text = trimmed(texts[i] ?? "");
      if (head.dataset.name !== "status") return `<td class="${head.className}">${text}</td>`;
      if (isGroup) return `<td${text === "ok" ? "" : ' class="marked"'}>${text}</td>`;
      return `<td><span class="badge ${["ok", "partial"].includes(text) ? text : "failed"}">${text}</span></td>`;
    });
    const row = (kinds, head) => `<tr class="${kinds}"><th scope="row">${head}</th>${cells.join("")}</tr>`;
    if (isGroup) return row("group", exp);
    const label = `aria-label="groups of experiment ${number}">▸`;
    const fold = place === "0" ? `<button type="button" class="fold" hidden aria-expanded="true" ${label}</button>`
      : place && `<a class="rows" href="rows/${place}.html#exp=${exp}" ${label}</a>`;
    const shown = kind.startsWith("1") ? `<a href="${number}/exp.html">${exp}</a>` : exp;
    return row(`whole${status === "ok" ? "" : " bad"}`, fold + shown);
  };
  const large = holder && virtual.open(holder, expand);
  const table = large ? large.table : scroll.querySelector("table");
  const heads = [...table.tHead.rows[0].cells];
  const withoutFold = (text, column) => (column === 0 ? text.replace("▸", "").trim() : text.trim());

  // An experiment is its rows: elements, or in a large table lines of HTML.
  const grouped = (lines) => {
    const found = [];
    for (const line of lines) {
      if (line.startsWith('<tr class="whole')) found.push({ lines: [] });
      found.at(-1).lines.push(line);
    }
    return found;
  };
  const experiments = large ? grouped(large.lines) : [...table.tBodies].map((body) => ({
    body, texts: [...body.rows].map((row) => [...row.cells].map((cell) => cell.textContent).map(withoutFold)),
  }));
  const allGroups = document.getElementById("all-groups");
  for (const experiment of experiments) experiment.folded = !allGroups?.defaultChecked;
  const textsOf = (experiment) =>
    experiment.texts ??= experiment.lines.map((line) => virtual.textsOf(line).map(withoutFold));

  const button = (experiment) => experiment.body.querySelector(".fold");
  const linesOf = ({ lines, folded }) => [
    lines[0].replace(' hidden aria-expanded="true"', ` aria-expanded="${!folded}"`), ...(folded ? [] : lines.slice(1)),
  ];
  let kept = experiments;
  let owners = [];
  const showLines = large && virtual.shower(scroll, table);
  const show = () => {
    if (large) {
      const lines = kept.map(linesOf);
      owners = kept.flatMap((experiment, i) => lines[i].map(() => experiment));
      showLines(lines.flat());
      return;
    }
    for (const body of [...table.tBodies]) body.remove();
    for (const experiment of kept) {
      experiment.body.classList.toggle("folded", experiment.folded);
      button(experiment)?.setAttribute("aria-expanded", String(!experiment.folded));
    }
    table.append(...kept.map(({ body }) => body));
  };

  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const apply = () => {
    const conditions = tables.conditions(filter.value, heads);
    kept = conditions.length
      ? experiments.filter((one) => textsOf(one).some((row) => conditions.every((each) => each(row)))) : experiments;
    show();
    const all = experiments.length.toLocaleString("en");
    shown.textContent = conditions.length ? `${kept.length.toLocaleString("en")} of ${all}`
      : large ? `${all} experiments; the browser's own search finds only those in view` : "";
  };
  filter.addEventListener("input", () => { apply(); scroll.scrollTop = 0; });
  filter.form.addEventListener("submit", (event) => event.preventDefault());

  tables.sortable(heads, (column, order) => {
    const text = new Map(experiments.map((one) => [one, textsOf(one)[0][column]]));
    experiments.sort((one, other) => order(text.get(one), text.get(other)));
    apply();
  });

  if (!large) for (const experiment of experiments) button(experiment)?.removeAttribute("hidden");
  table.addEventListener("click", (event) => {
    const row = event.target.closest(".fold")?.closest("tr");
    if (!row) return;
    const place = row.ariaRowIndex;
    const experiment = large ? owners[place - 2] : experiments.find(({ body }) => body === row.parentElement);
    experiment.folded = !experiment.folded;
    show();
    const again = large ? table.querySelector(`tr[aria-rowindex="${place}"] .fold`) : button(experiment);
    again?.focus();
  });
  allGroups?.addEventListener("change", (event) => {
    for (const experiment of experiments) experiment.folded = !event.target.checked;
    show();
  });
  table.classList.add("brief");
  document.getElementById("all-columns")?.addEventListener("change", (event) => {
    table.classList.toggle("brief", !event.target.checked);
  });
  filter.form.hidden = false;
  // The index links to the rows of one experiment.
  if (location.hash.startsWith("#exp=")) filter.value = location.hash.slice(1);
  apply();
})();
