"use strict";
// Pressing entries of the legend leaves only their lines bright, in every graph.
(() => {
  const chips = document.querySelector(".chips");
  const graphs = document.querySelector(".graphs");
  if (!chips || !graphs) return;
  chips.firstElementChild.textContent = "Show only";
  const lines = [...graphs.querySelectorAll("[data-flow]")];
  chips.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    const pressed = chips.querySelectorAll("[aria-pressed=true]");
    const chosen = new Set([...pressed].flatMap((one) => one.dataset.flows.split(" ")));
    graphs.classList.toggle("chosen", chosen.size > 0);
    for (const line of lines) line.classList.toggle("on", chosen.has(line.dataset.flow));
  });
})();
