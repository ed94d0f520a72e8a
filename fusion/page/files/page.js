"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const CHUNK = 100;
  const columns = data.columns;
  const rows = data.rows;
  const element = (id) => document.getElementById(id);
  const head = document.querySelector("#table thead tr");
  const body = document.querySelector("#table tbody");
  const texts = rows.map((row) => row.map((cell) => (cell === null ? "" : String(cell))).join(" ").toLowerCase());
  const at = Object.fromEntries(columns.map((column, index) => [column.name, index]));
  let order = rows.map((_, index) => index);
  let shown = [];
  let drawn = 0;
  let sorted = { column: at.attainment_pct, down: false };

  const written = (value, column) => {
    if (value === null || value === "") return "";
    if (!column.number) return String(value);
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  };

  const compared = (a, b) => {
    const [left, right] = [rows[a][sorted.column], rows[b][sorted.column]];
    const missing = (value) => value === null || value === "";
    if (missing(left) || missing(right)) return missing(left) - missing(right) || a - b;
    const way = left < right ? -1 : left > right ? 1 : 0;
    return (sorted.down ? -way : way) || a - b;
  };

  const matches = (index, words, category, mark) => {
    const row = rows[index];
    if (category && row[at.category] !== category) return false;
    if (mark === "none" && row[at.mark]) return false;
    if (mark && mark !== "none" && !String(row[at.mark]).includes(mark)) return false;
    return words.every((word) => texts[index].includes(word));
  };

  const line = (index) => {
    const row = document.createElement("tr");
    row.dataset.row = index;
    row.id = `row-${index}`;
    columns.forEach((column, position) => {
      const cell = document.createElement(position === at.operator ? "th" : "td");
      if (position === at.operator) cell.scope = "row";
      cell.hidden = column.empty;
      cell.className = [column.number ? "number" : column.name, column.wide ? "wide" : ""].join(" ").trim();
      if (column.name === "command") {
        const details = document.createElement("details");
        const summary = document.createElement("summary");
        const code = document.createElement("code");
        summary.textContent = "command";
        code.textContent = data.commands[rows[index][position]];
        details.append(summary, code);
        cell.append(details);
      } else {
        cell.textContent = written(rows[index][position], column);
        if (column.name === "mark" && cell.textContent) cell.classList.add(...cell.textContent.split(" "));
      }
      row.append(cell);
    });
    return row;
  };

  const drawMore = (count) => {
    const piece = document.createDocumentFragment();
    shown.slice(drawn, drawn + count).forEach((index) => piece.append(line(index)));
    body.append(piece);
    drawn = Math.min(shown.length, drawn + count);
    element("more").hidden = drawn >= shown.length;
  };

  const drawAgain = () => {
    body.replaceChildren();
    drawn = 0;
    drawMore(CHUNK);
    element("count").textContent = `${shown.length} of ${rows.length} rows`;
  };

  const narrow = () => {
    const words = element("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [category, mark] = [element("category").value, element("mark").value];
    shown = order.filter((index) => matches(index, words, category, mark));
    drawAgain();
    pick();
  };

  const sort = (column, down) => {
    sorted = { column, down };
    order.sort(compared);
    [...head.children].forEach((cell, index) => {
      cell.setAttribute("aria-sort", index !== column ? "none" : down ? "descending" : "ascending");
    });
    narrow();
  };

  columns.forEach((column, index) => {
    column.empty = rows.every((row) => row[index] === null);
    const cell = document.createElement("th");
    cell.hidden = column.empty;
    cell.scope = "col";
    if (column.wide) cell.className = "wide";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = column.title;
    button.addEventListener("click", () => sort(index, sorted.column === index && !sorted.down));
    cell.append(button);
    head.append(cell);
  });

  const plot = element("plot");
  const picture = plot.querySelector("svg");
  const tip = element("tip");
  const space = "http://www.w3.org/2000/svg";
  const make = (name, facts) => {
    const made = document.createElementNS(space, name);
    Object.entries(facts).forEach(([key, value]) => made.setAttribute(key, value));
    picture.append(made);
    return made;
  };
  const picked = make("path", { id: "picked", fill: "currentColor", "fill-opacity": 0.75 });
  const ring = make("circle", { r: 6, fill: "none", stroke: "currentColor", "stroke-width": 2, visibility: "hidden" });
  let current = -1;

  const circle = ([x, y]) => `M${x - 3} ${y}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0`;
  const placed = () => shown.filter((index) => data.places[index]);

  const pick = () => {
    const all = shown.length === rows.length;
    picture.querySelectorAll("[id^=points-], image").forEach((group) => group.classList.toggle("dimmed", !all));
    picked.setAttribute("d", all ? "" : placed().map((index) => circle(data.places[index])).join(""));
    hide();
  };

  const told = (index) => columns
    .filter((column) => column.tip && rows[index][at[column.name]] !== null && rows[index][at[column.name]] !== "")
    .map((column) => (column.name === "operator" ? "" : `${column.title}: `) + written(rows[index][at[column.name]], column))
    .join("\n");

  const show = (index) => {
    current = index;
    const [x, y] = data.places[index];
    ring.setAttribute("cx", x);
    ring.setAttribute("cy", y);
    ring.setAttribute("visibility", "visible");
    tip.textContent = told(index);
    tip.hidden = false;
    const scale = picture.clientWidth / data.size[0];
    const left = Math.max(0, Math.min(x * scale + 12, plot.clientWidth - tip.offsetWidth));
    tip.style.left = `${left}px`;
    tip.style.top = `${y * scale + 14}px`;
  };

  const hide = () => {
    current = -1;
    tip.hidden = true;
    ring.setAttribute("visibility", "hidden");
  };

  plot.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const scale = data.size[0] / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let [best, least] = [-1, 14 * 14];
    placed().forEach((index) => {
      const [px, py] = data.places[index];
      const away = (px - x) ** 2 + (py - y) ** 2;
      if (away < least) [best, least] = [index, away];
    });
    if (best < 0) hide();
    else if (best !== current) show(best);
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const all = placed().sort((a, b) => (rows[a][at.attainment_pct] ?? 1e9) - (rows[b][at.attainment_pct] ?? 1e9));
    if (event.key in steps && all.length) {
      event.preventDefault();
      const from = all.indexOf(current);
      show(all[from < 0 ? 0 : (from + steps[event.key] + all.length) % all.length]);
    } else if (event.key === "Enter" && current >= 0) {
      reveal(current);
    } else if (event.key === "Escape") {
      hide();
    }
  });

  const reveal = (index) => {
    const place = shown.indexOf(index);
    if (place >= drawn) drawMore(place - drawn + CHUNK);
    body.querySelectorAll(".chosen").forEach((row) => row.classList.remove("chosen"));
    const row = element(`row-${index}`);
    row.classList.add("chosen");
    row.tabIndex = -1;
    row.focus();
  };

  ["filter", "category", "mark"].forEach((id) => element(id).addEventListener("input", narrow));
  element("filters").addEventListener("submit", (event) => event.preventDefault());
  element("more").addEventListener("click", () => drawMore(CHUNK));
  new IntersectionObserver((seen) => {
    if (seen.some((entry) => entry.isIntersecting) && drawn < shown.length) drawMore(CHUNK);
  }, { rootMargin: "600px" }).observe(element("more"));
  window.addEventListener("beforeprint", () => drawMore(shown.length));
  sort(at.attainment_pct, false);
  document.documentElement.dataset.ready = "true";
})();
