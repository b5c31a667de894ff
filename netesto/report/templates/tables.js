"use strict";
// What the tables of all pages have in common: headings that sort, and the language of the filter.
const tables = (() => {
  const isMissing = (text) => ["", "*", "**", "..."].includes(text);
  const numberOf = (text) => {
    // Also changes, "-  50.0%", and sizes, "64K".
    const match = /^([+-]?) *([\d.]+(?:e[+-]?\d+)?)([KMG]?)%?$/i.exec(text);
    if (!match) return NaN;
    return Number(match[1] + match[2]) * { "": 1, K: 1e3, M: 1e6, G: 1e9 }[match[3].toUpperCase()];
  };
  // Rates in bits per second and times in seconds, as tc(8) writes them: 10mbit, 20ms.
  const units = {
    rate: { bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9, tbit: 1e12, "bit/s": 1, "kbit/s": 1e3, "mbit/s": 1e6,
      "gbit/s": 1e9, bps: 8, kbps: 8e3, mbps: 8e6, gbps: 8e9 },
    time: { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, sec: 1, min: 60 },
  };
  const quantityOf = (text, kind) => {
    const match = /^ *([\d.]+(?:e[+-]?\d+)?) *([a-z/]+)$/i.exec(text);
    return match ? Number(match[1]) * units[kind][match[2].toLowerCase()] : NaN;
  };
  const measures = [numberOf, (text) => quantityOf(text, "rate"), (text) => quantityOf(text, "time")];
  // What a text is to be ordered by: its kind, its size, itself. Most texts come again and again.
  const known = new Map();
  const keyOf = (text) => {
    let key = known.get(text);
    if (!key) {
      const sizes = measures.map((measure) => measure(text));
      const kind = sizes.findIndex((size) => !Number.isNaN(size));
      known.set(text, key = kind < 0 ? { kind: measures.length, size: 0 } : { kind, size: sizes[kind] });
    }
    return key;
  };
  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (one, other) => {
    const [a, b] = [keyOf(one), keyOf(other)];
    if (a.kind === b.kind && a.kind < measures.length) return a.size - b.size;
    return a.kind - b.kind || collator.compare(one, other);
  };

  // 12.10 after 12.9: numbers of an experiment and of a group. 12 is 12.0.
  const comparePairs = (one, other) => {
    const [a, b] = [one, other].map((text) => /^(\d+)(?:\.(\d+))?$/.exec(text));
    return a && b ? a[1] - b[1] || (a[2] ?? 0) - (b[2] ?? 0) : compare(one, other);
  };
  const orderOf = (head) => head.dataset.order === "pairs" ? comparePairs : compare;

  // Headings become buttons. `reorder` gets a column, and how two of its texts are ordered.
  const sortable = (heads, reorder) => heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      reorder(column, (one, other) => {
        // What is missing comes last, whichever way.
        if (isMissing(one) || isMissing(other)) return isMissing(one) - isMissing(other);
        return down ? orderOf(head)(other, one) : orderOf(head)(one, other);
      });
    });
  });

  const tests = {
    "=": (order) => order === 0, "!=": (order) => order !== 0, "<": (order) => order < 0,
    "<=": (order) => order <= 0, ">": (order) => order > 0, ">=": (order) => order >= 0,
  };
  const condition = (word, heads) => {
    const match = /^([^=<>!]+)(!=|<=|>=|=|<|>)(.+)$/.exec(word);
    const column = match ? heads.findIndex((head) => head.dataset.name.toLowerCase() === match[1].toLowerCase()) : -1;
    if (column >= 0) {
      // A text is neither above nor below a number.
      const orders = match[2].includes("<") || match[2].includes(">");
      return (texts) => (!isMissing(texts[column]) || match[2] === "!=")
        && (!orders || keyOf(texts[column]).kind === keyOf(match[3]).kind)
        && tests[match[2]](orderOf(heads[column])(texts[column], match[3]));
    }
    const wanted = word.toLowerCase();
    return (texts) => texts.some((text) => text.toLowerCase().includes(wanted));
  };
  // What a filter asks for, as tests of the texts of a row: "bbr rate>90".
  const conditions = (filter, heads) => filter.split(/\s+/).filter(Boolean).map((word) => condition(word, heads));

  return { sortable, conditions };
})();
