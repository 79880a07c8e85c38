// The book's own script: tables to pick, sort and filter; claims to filter; search without a server.
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

const make = (tag, attributes = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children);
  return node;
};

// --- the tables of a paper: a table is a script of its own, loaded when it is picked -------------

const tables = new Map();
const fedclust = {
  table: (name, data) => tables.set(name, { ...data, rows: data.rows.split("\n").map((row) => row.split("\t")) }),
};

function results(box) {
  const items = [...box.querySelectorAll("li")];
  const pick = make("select", { ariaLabel: "table" });
  for (const item of items) {
    pick.append(make("option", { value: item.id, textContent: item.querySelector("span").textContent }));
  }
  const said = make("p", { className: "results-said" });
  const filter = make("input", { type: "search", placeholder: "filter rows" });
  filter.ariaLabel = "show only rows that contain all of these words";
  const count = make("span", { ariaLive: "polite" });
  const table = make("table", { className: "results-table" });
  const scroll = make("div", { className: "results-scroll", tabIndex: 0, role: "region" }, table);
  const more = make("button", { type: "button", textContent: "show more rows" });
  const how = make("p", { className: "results-made" });
  box.querySelector("ul").hidden = true;
  box.append(pick, said, make("div", { className: "results-tools" }, filter, count), scroll, more, how);
  let data, state;

  function choose(name) {
    const item = items.find((one) => one.id === name);
    pick.value = name;
    said.innerHTML = item.innerHTML;
    scroll.ariaLabel = `table ${name}`;
    state = { name, shown: ROWS_SHOWN, text: "", column: -1, direction: 1 };
    filter.value = "";
    if (tables.has(name)) open();
    else document.head.append(make("script", { src: item.dataset.script, onload: () => state.name === name && open() }));
  }

  function open() {
    data = tables.get(state.name);
    how.textContent = data.made;
    const row = make("tr");
    data.columns.forEach((column, i) => {
      const button = make("button", { type: "button", textContent: column });
      button.addEventListener("click", () => {
        state.direction = state.column === i ? -state.direction : 1;
        state.column = i;
        draw();
      });
      row.append(make("th", { scope: "col", className: data.numeric[i] ? "number" : "" }, button));
    });
    table.replaceChildren(make("thead", {}, row), make("tbody"));
    draw();
  }

  function draw() {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => {
      const cells = row.map((value) => value.toLowerCase());
      return words.every((word) => cells.some((value) => value.includes(word)));
    };
    const found = data.rows.filter(fits);
    if (state.column >= 0) {
      found.sort(compare(state.column, data.numeric[state.column], state.direction));
    }
    const body = make("tbody");
    for (const row of found.slice(0, state.shown)) {
      const line = body.insertRow();
      row.forEach((value, i) => {
        line.append(make("td", { textContent: value, className: data.numeric[i] ? "number" : "" }));
      });
    }
    table.tBodies[0].replaceWith(body);
    count.textContent = `${Math.min(state.shown, found.length)} of ${found.length} rows`;
    more.hidden = state.shown >= found.length;
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      head.ariaSort = i !== state.column ? "none" : state.direction > 0 ? "ascending" : "descending";
    });
  }

  pick.addEventListener("change", () => choose(pick.value));
  filter.addEventListener("input", () => {
    state.text = filter.value;
    state.shown = ROWS_SHOWN;
    draw();
  });
  more.addEventListener("click", () => {
    state.shown *= 4;
    draw();
  });
  const named = () => {
    const name = location.hash.slice(1);
    if (!items.some((item) => item.id === name)) return false;
    choose(name);
    box.scrollIntoView();
    return true;
  };
  window.addEventListener("hashchange", named);
  if (!named()) choose(items[0].id);
}

// --- the claims, by paper, verdict, who says it, kind of slip, and words --------------------------

const VERDICTS = ["reproduced", "in shape", "refuted", "not seen in our design", "undecided", "not possible here"];

function claims(place) {
  const all = [...document.querySelectorAll(".claim")];
  const of = {
    paper: (card) => card.parentElement.dataset.paper,
    verdict: (card) => card.dataset.verdict,
    kind: (card) => card.dataset.kind,
    slip: (card) => card.dataset.slip,
  };
  const labels = { paper: "all papers", verdict: "all verdicts", kind: "said by anybody", slip: "any kind of slip" };
  const chosen = { paper: "", verdict: "", kind: "", slip: "" };
  const texts = new Map(all.map((card) => [card, card.textContent.toLowerCase()]));
  const word = make("input", { type: "search", placeholder: "words or an id" });
  word.ariaLabel = "show only claims that contain all of these words";
  const count = make("p", { className: "claim-count", ariaLive: "polite" });
  const bar = make("div", { className: "claim-bar" });
  const legend = make("p", { className: "claim-legend" });
  const picks = Object.keys(of).map((key) => {
    const pick = make("select", { ariaLabel: labels[key] });
    pick.addEventListener("change", () => {
      chosen[key] = pick.value;
      draw();
    });
    return [key, pick];
  });
  const given = new URLSearchParams(location.search);
  const more = make("details", { open: innerWidth > 600 || given.size > 0 }, make("summary", { textContent: "filters" }),
    make("div", { className: "results-tools" }, ...picks.map(([, pick]) => pick)));
  place.append(make("div", { className: "results-tools" }, word), more, bar, legend, count);

  const fits = (card, without) =>
    Object.keys(of).every((key) => key === without || !chosen[key] || of[key](card) === chosen[key])
    && word.value.toLowerCase().split(/\s+/).every((part) => texts.get(card).includes(part));
  const totals = (key) => {
    const names = key === "verdict" ? VERDICTS : all.map(of[key]);
    const found = new Map(names.map((name) => [name, 0]));
    for (const card of all) if (fits(card, key)) found.set(of[key](card), found.get(of[key](card)) + 1);
    return [...found];
  };

  function draw() {
    for (const card of all) card.hidden = !fits(card);
    const left = all.filter((card) => !card.hidden);
    for (const [key, pick] of picks) {
      const options = totals(key).map(([name, n]) => make("option", { value: name, textContent: `${name} (${n})` }));
      pick.replaceChildren(make("option", { value: "", textContent: labels[key] }), ...options);
      pick.value = chosen[key];
    }
    const fitting = all.filter((card) => fits(card, "verdict")).length;
    bar.replaceChildren(...totals("verdict").filter(([, n]) => n).map(([name, n]) => {
      const part = make("button", { type: "button", title: `${name}: ${n}`, ariaLabel: `${name}: ${n}` });
      part.textContent = (bar.clientWidth * n) / fitting > 8 * name.length + 40 ? `${name} ${n}` : n;
      part.className = "verdict";
      part.dataset.verdict = name;
      part.style.flexGrow = n;
      part.ariaPressed = chosen.verdict === name;
      part.addEventListener("click", () => {
        chosen.verdict = chosen.verdict === name ? "" : name;
        draw();
      });
      return part;
    }));
    legend.replaceChildren(...totals("verdict").filter(([, n]) => n).map(([name, n]) => {
      const part = make("span", { className: "verdict-name" }, make("i"), `${name} ${n}`);
      part.dataset.verdict = name;
      return part;
    }));
    count.textContent = `${left.length} of ${all.length} claims`;
    const asked = new URLSearchParams(Object.entries({ ...chosen, words: word.value }).filter(([, value]) => value));
    try { // a view can be sent to somebody; not from a file, whose address may not change
      history.replaceState(null, "", (asked.size ? `?${asked}` : location.pathname) + location.hash);
    } catch {}
    for (const list of document.querySelectorAll(".claims")) {
      list.closest("section").hidden = !left.some((card) => list.contains(card));
    }
  }

  for (const key of Object.keys(chosen)) if (all.some((card) => of[key](card) === given.get(key))) chosen[key] = given.get(key);
  word.value = given.get("words") ?? "";
  word.addEventListener("input", draw);
  window.addEventListener("hashchange", () => { // a link to a claim that is filtered away
    const card = document.getElementById(location.hash.slice(1));
    if (!card?.closest(".claims [hidden], section[hidden]")) return;
    Object.assign(chosen, { paper: "", verdict: "", kind: "", slip: "" });
    word.value = "";
    draw();
    card.scrollIntoView();
  });
  draw();
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".results").forEach(results);
  document.querySelectorAll("#claim-filter").forEach(claims);
});

// Paper is white, and nobody opens an answer on it.
window.addEventListener("beforeprint", () => {
  const root = document.documentElement;
  const theme = root.dataset.theme;
  const closed = document.querySelectorAll(".bd-article details:not(.hide, [open])"); // answers; not folded code
  const open = (is) => { for (const part of closed) part.open = is; };
  root.dataset.theme = "light";
  open(true);
  window.addEventListener("afterprint", () => { root.dataset.theme = theme; open(false); }, { once: true });
});

// A link of a menu that lies over the page closes it.
document.addEventListener("click", (event) => {
  if (event.target.closest("a[href]")) event.target.closest("dialog[open]")?.close();
});
