// Large tables: their rows are text, and only those in view are elements. Without this script the browser
// shows what <noscript> holds, which is the whole table.
const virtual = (() => {
  // Rows are made some at once, and that many above and below the view.
  const STEP = 30;
  // Browsers measure no further than some 17 million pixels; beyond, the bar moves in longer steps.
  const HEIGHT_MAX = 8e6;
  // On paper, and when all is selected to be copied.
  const ELEMENTS_MAX = 5000;
  const entities = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&#34;": '"', "&#39;": "'", "&quot;": '"', "&#x27;": "'", "&#10;": "\n", "&#13;": "\r", "&#9;": "\t" };

  // The texts of a row's cells, from its line of HTML.
  const textsOf = (line) => line.split(/<t[dh]\b/).slice(1).map((cell) => cell.slice(cell.indexOf(">") + 1)
    .replace(/<[^>]*>/g, "").replace(/&[#\w]+;/g, (entity) => entities[entity] ?? entity).trim());

  // The table in `holder`, without rows, and the lines of its rows, which `expand` makes of the lines in the
  // page and the heads of the table. The text stays in the page, in a form that makes no elements, so that a
  // page that the browser saves is whole.
  const open = (holder, expand = (line) => line) => {
    const kept = holder.matches("script");
    const html = kept ? holder.textContent.replaceAll("\u0001", "<") : holder.textContent;
    const [start, end] = [html.indexOf("<tbody>") + "<tbody>".length, html.lastIndexOf("</tbody>")];
    if (!kept) {
      const script = document.createElement("script");
      script.type = "text/plain";
      script.className = "large";
      script.dataset.widest = holder.dataset.widest;
      script.textContent = html.replaceAll("<", "\u0001");
      holder.replaceWith(script);
      holder = script;
    }
    holder.parentElement.querySelector("table")?.remove();
    holder.insertAdjacentHTML("beforebegin", html.slice(0, start) + html.slice(end));
    const table = holder.previousElementSibling;
    // The longest text of each column keeps its width while rows come and go.
    const heads = table.tHead.rows[0].cells;
    const lines = html.slice(start, end).trim().split("\n").map((line) => expand(line, heads));
    const widths = table.tHead.insertRow();
    widths.className = "widths";
    widths.ariaHidden = "true";
    for (const [column, row] of holder.dataset.widest.split(" ").entries()) {
      const cell = widths.insertCell();
      cell.className = heads[column].className;
      cell.textContent = textsOf(lines[row])[column];
    }
    return { table, lines };
  };

  // A function that shows rows, given as lines of HTML, in `table` within the box `scroll`.
  const shower = (scroll, table) => {
    const body = table.tBodies[0];
    const space = () => {
      const part = document.createElement("tbody");
      part.className = "space";
      part.insertRow().insertCell().colSpan = table.tHead.rows[0].cells.length;
      return part;
    };
    const [above, below] = [space(), space()];
    body.before(above);
    body.after(below);
    const note = document.createElement("p");
    table.after(note);
    let lines = [];
    let [from, to] = [0, 0];
    let height = 22;

    const made = (first, last) => {
      const holder = document.createElement("template");
      holder.innerHTML = lines.slice(first, last).join("");
      [...holder.content.children].forEach((row, i) => { row.ariaRowIndex = first + i + 2; });
      return holder.content;
    };
    // Rows that stay are not replaced, so that the focus stays.
    const make = (first, last) => {
      if (first >= to || last <= from) body.replaceChildren(made(first, last));
      else {
        for (; from < first; from++) body.firstElementChild.remove();
        for (; to > last; to--) body.lastElementChild.remove();
        if (first < from) body.prepend(made(first, from));
        if (last > to) body.append(made(to, last));
      }
      [from, to] = [first, last];
    };
    const spread = (before, after) => {
      above.rows[0].cells[0].style.height = `${before}px`;
      below.rows[0].cells[0].style.height = `${after}px`;
      above.hidden = before <= 0;
      below.hidden = after <= 0;
    };
    const draw = () => {
      const whole = Math.min(lines.length * height, HEIGHT_MAX);
      // Read before rows change: with fewer of them the browser would scroll back.
      const [place, seen] = [scroll.scrollTop, scroll.clientHeight - table.tHead.offsetHeight];
      const inView = Math.ceil(seen / height) + 1;
      const part = Math.min(1, place / Math.max(1, whole - seen));
      const top = whole < HEIGHT_MAX ? Math.floor(place / height)
        : Math.round(part * Math.max(0, lines.length - Math.floor(seen / height)));
      const first = Math.max(0, Math.min(Math.floor(top / STEP) * STEP, lines.length - inView) - STEP);
      make(first, Math.min(lines.length, first + inView + 3 * STEP));
      const before = whole < HEIGHT_MAX ? from * height : Math.max(0, place - (top - from) * height);
      spread(before, Math.max(0, whole - before - (to - from) * height));
    };
    const measure = () => {
      const found = body.rows.length && body.getBoundingClientRect().height / body.rows.length;
      if (found && Math.abs(found - height) > 0.01) { height = found; draw(); }
    };
    const all = () => {
      make(0, Math.min(lines.length, ELEMENTS_MAX));
      spread(0, 0);
      const more = lines.length - to;
      note.textContent = more ? `${more.toLocaleString("en")} more rows are not shown: filter, or save as CSV.` : "";
    };
    const view = () => { note.textContent = ""; draw(); };
    scroll.addEventListener("scroll", draw, { passive: true });
    new ResizeObserver(() => { draw(); measure(); }).observe(scroll);
    addEventListener("beforeprint", all);
    addEventListener("afterprint", view);
    document.addEventListener("copy", () => {
      if (!getSelection().containsNode(table)) return;
      all();
      setTimeout(view);
    });

    return (shown) => {
      lines = shown;
      table.ariaRowCount = lines.length + 1;
      body.replaceChildren();
      [from, to] = [0, 0];
      draw();
      measure();
    };
  };

  return { open, shower, textsOf };
})();
