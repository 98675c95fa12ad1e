"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Read-out: the rows of the table behind a figure, under the pointer or by arrow keys.
  for (const plot of all(".plot")) {
    const figure = plot.closest("figure"), out = figure.querySelector(".readout");
    const heads = all("thead th", figure).map((cell) => cell.textContent);
    const rows = all("tbody tr", figure).map((row) => [...row.cells].map((cell) => cell.textContent));
    const points = plot.dataset.points.split(" ").filter(Boolean).map((pair) => pair.split(",").map(Number));
    const svg = plot.querySelector("svg"), near = plot.dataset.by === "xy";
    if (!points.length) continue;
    const dot = document.createElementNS(svg.namespaceURI, "circle");
    dot.setAttribute("r", "3.2");
    dot.setAttribute("class", "cursor");
    let at = -1;
    const show = (k) => {
      at = Math.max(0, Math.min(points.length - 1, k));
      dot.setAttribute("cx", points[at][0]);
      dot.setAttribute("cy", points[at][1]);
      svg.append(dot);
      out.textContent = rows[at].map((cell, j) => (j ? `${heads[j]} ${cell}` : `${heads[j] === "Number" ? "" : heads[j] + " "}${cell}`)).join(" · ");
    };
    const hide = () => { at = -1; dot.remove(); out.textContent = ""; };
    plot.tabIndex = 0;
    plot.title = "Arrow keys read the values";
    plot.addEventListener("keydown", (event) => {
      const to = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: points.length - 1 }[event.key];
      if (event.key === "Escape") hide();
      if (to === undefined) return;
      event.preventDefault();
      show(to);
    });
    plot.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      const away = points.map(([a, b]) => (a - x) ** 2 + (near ? (b - y) ** 2 : 0));
      show(away.indexOf(Math.min(...away)));
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
  }

  // Sorting: the head of a column becomes a button.
  for (const table of all("table.sortable")) {
    const heads = all("thead th", table), body = table.tBodies[0];
    heads.forEach((head, column) => {
      if (head.dataset.kind === "none") return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => {
          const cell = row.cells[column];
          return head.dataset.kind === "number" ? Number(cell.dataset.value ?? Infinity) : cell.textContent;
        };
        const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
        const sorted = [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b)));
        body.append(...sorted);
      });
    });
  }

  // Filtering: by name, and by whether a parameter fails.
  for (const tools of all(".tools")) {
    const rows = [...tools.nextElementSibling.querySelector("tbody").rows];
    const [name, fails] = all("input", tools), shown = tools.querySelector(".shown");
    const filter = () => {
      const wanted = name.value.trim().toLowerCase();
      for (const row of rows) {
        const fits = row.querySelector("th").textContent.toLowerCase().includes(wanted);
        row.hidden = !fits || (fails.checked && !row.classList.contains("fails"));
      }
      const n = rows.filter((row) => !row.hidden).length;
      shown.textContent = n === rows.length ? "" : `${n} of ${rows.length} shown`;
    };
    tools.hidden = rows.length < 2;
    name.addEventListener("input", filter);
    fails.addEventListener("change", filter);
  }

  // A link into a closed part opens it; a printed page has all parts open.
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  addEventListener("beforeprint", () => all("details.study, details.angles").forEach((part) => { part.open = true; }));
  open();
})();
