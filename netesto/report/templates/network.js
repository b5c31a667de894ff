"use strict";
// A slider shows the links at a time; a flow shows its way, a link its flows. Without this script the picture is that
// of the whole time.
(() => {
  const section = document.querySelector(".network");
  const { step_s: length, steps, flows } = JSON.parse(section.querySelector("[type='application/json']").textContent);
  const group = section.querySelector(".links"), shown = section.querySelector(".shown");
  const lines = [...group.querySelectorAll("path")];
  const whole = lines.map((line) => line.style.getPropertyValue("--u"));
  const { step, time, flow, link } = section.querySelector("form").elements;
  const MOST_SHOWN = 200;

  step.max = Math.max(0, ...Object.values(steps).map((each) => each.length));
  const seconds = (count) => Number((count * length).toFixed(6));
  const showTime = () => {
    const at = Number(step.value);
    lines.forEach((line, place) => {
      if (whole[place] !== "") line.style.setProperty("--u", at ? (steps[place]?.[at - 1] ?? 0) : whole[place]);
    });
    const now = link.value !== "" && at && whole[link.value] !== "" ? `: ${steps[link.value]?.[at - 1] ?? 0} %` : "";
    time.textContent = (at ? `${seconds(at - 1)} to ${seconds(at)} s` : "all of it") + now;
  };
  const mark = (places) => {
    group.classList.toggle("chosen", places.length > 0);
    lines.forEach((line, place) => line.classList.toggle("on", places.includes(place)));
  };
  const write = (title, texts) => {
    const list = document.createElement("ul");
    for (const text of texts.slice(0, MOST_SHOWN)) list.append(Object.assign(document.createElement("li"), { textContent: text }));
    const heading = Object.assign(document.createElement("p"), { textContent: title });
    const more = texts.length - MOST_SHOWN;
    shown.replaceChildren(heading, list, more > 0 ? `${more} more are in ways.csv.` : "");
  };
  const titleOf = (place) => lines[place].querySelector("title").textContent;
  const showFlow = () => {
    link.value = "";
    const places = flow.value === "" ? [] : flows[flow.value][1];
    mark(places);
    if (flow.value === "") shown.replaceChildren();
    else write(flows[flow.value][0], places.map(titleOf));
    showTime();
  };
  const showLink = () => {
    flow.value = "";
    if (link.value === "") return showFlow();
    const place = Number(link.value), found = flows.filter(([, places]) => places.includes(place));
    mark([place]);
    write(`${titleOf(place)}; ${found.length} flows`, found.map(([words]) => words));
    showTime();
  };
  flows.forEach(([words], place) => flow.append(new Option(words.split(":")[0], place)));
  lines.forEach((_, place) => link.append(new Option(titleOf(place).split(":")[0], place)));
  step.addEventListener("input", showTime);
  flow.addEventListener("change", showFlow);
  link.addEventListener("change", showLink);
  group.addEventListener("click", (event) => {
    const place = lines.indexOf(event.target.closest("path"));
    if (place >= 0) { link.value = place; showLink(); }
  });
  section.querySelector("form").hidden = false;
  showTime();
})();
