// The book's own script: result tables that sort and filter, and search without a server.
"use strict";

// Under file:// a page may not read another page, so results are listed without their excerpts.
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

const ROWS_SHOWN = 50;

const number = (text) => Number(text.replace("inf", "Infinity"));

function compare(column, numeric, direction) {
  return (a, b) => {
    const [x, y] = [a[column], b[column]];
    if (x === "" || y === "") return (x === "") - (y === ""); // empty entries come last
    return direction * (numeric ? number(x) - number(y) || 0 : x.localeCompare(y));
  };
}

function bringToLife(box) {
  const { numeric, rows } = JSON.parse(box.querySelector("script").textContent);
  const table = box.querySelector("table");
  const heads = [...table.tHead.rows[0].cells];
  const state = { shown: ROWS_SHOWN, text: "", column: -1, direction: 1 };

  const tools = document.createElement("div");
  tools.className = "results-tools";
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "filter rows";
  filter.setAttribute("aria-label", "show only rows that contain all of these words");
  const count = document.createElement("span");
  count.setAttribute("aria-live", "polite");
  tools.append(filter, count);
  box.prepend(tools);
  const more = document.createElement("button");
  more.type = "button";
  more.textContent = "show more rows";
  box.append(more);

  function draw() {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => {
      const cells = row.map((value) => value.toLowerCase());
      return words.every((word) => cells.some((value) => value.includes(word)));
    };
    let found = words.length ? rows.filter(fits) : rows.slice();
    if (state.column >= 0) {
      found.sort(compare(state.column, numeric[state.column], state.direction));
    }
    const body = document.createElement("tbody");
    for (const row of found.slice(0, state.shown)) {
      const line = body.insertRow();
      row.forEach((value, i) => {
        const cell = line.insertCell();
        cell.textContent = value;
        if (numeric[i]) cell.className = "number";
      });
    }
    table.tBodies[0].replaceWith(body);
    const visible = Math.min(state.shown, found.length);
    count.textContent = `${visible} of ${found.length} rows`;
    more.hidden = visible === found.length;
    heads.forEach((head, i) => {
      const order = state.direction > 0 ? "ascending" : "descending";
      head.setAttribute("aria-sort", i === state.column ? order : "none");
    });
  }

  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      state.direction = state.column === i ? -state.direction : 1;
      state.column = i;
      draw();
    });
  });
  filter.addEventListener("input", () => {
    state.text = filter.value;
    state.shown = ROWS_SHOWN;
    draw();
  });
  more.addEventListener("click", () => {
    state.shown *= 4;
    draw();
  });
  draw();
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".results").forEach(bringToLife);
});
