// What is wider than the page scrolls inside its own box: it fades there while there is more to see,
// and the first one that does says so in words.
"use strict";

// A figure up to this width shrinks to a phone's page: letters of 10 points are 8 pixels high there.
const SHRINKS = 650;

const KINDS = [
  [".figure-scroll", "figure"],
  [".results-scroll, .pst-scrollable-table-container, .cell_output .output", "table"],
  [".math mjx-container, div.math", "formula"],
  ["pre", "code"],
];
const SELECTOR = KINDS.map(([selector]) => selector.replace(/(^|, )/g, "$1.bd-article ")).join(", ");

const sign = document.createElement("span");
sign.className = "more-sign";
sign.ariaHidden = "true";
sign.textContent = "more to the right: scroll \u2192";

// Put the words before the first box of the page that scrolls.
function place() {
  const first = document.querySelector(".scrolls");
  sign.hidden = !first;
  if (!first) return;
  sign.classList.toggle("at-end", !first.classList.contains("has-more"));
  const below = first.closest(".math, div[class*=highlight-]") ?? first;
  if (sign.nextSibling !== below) below.before(sign);
}

// Mark a box whose content goes on to the right; at the end of it, or where all fits, take that away.
function tell(box) {
  const wider = box.clientWidth > 0 && box.scrollWidth > box.clientWidth + 2;
  const scrolls = wider && ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
  const more = scrolls && box.scrollLeft + box.clientWidth < box.scrollWidth - 2;
  if (scrolls && !box.hasAttribute("aria-label")) {
    const kind = KINDS.find(([selector]) => box.matches(selector))[1];
    const number = [...document.querySelectorAll(SELECTOR)].indexOf(box) + 1;
    box.setAttribute("aria-label", `${kind} ${number}, scrolls sideways`);
    box.setAttribute("role", "region");
  }
  box.classList.toggle("scrolls", scrolls);
  box.classList.toggle("has-more", more);
  if (scrolls) box.tabIndex = 0;
  else if (box.ariaLabel?.endsWith("scrolls sideways")) box.removeAttribute("tabindex");
  place();
}

function watch() {
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const box = target.closest(SELECTOR);
      if (box) tell(box); // not one that was taken away since
    }
  });
  for (const box of document.querySelectorAll(SELECTOR)) {
    if (box.isWatched) continue;
    box.isWatched = true;
    box.addEventListener("scroll", () => tell(box), { passive: true });
    for (const part of [box, ...box.children]) sizes.observe(part);
    tell(box);
  }
}

function frame(image) {
  const box = document.createElement("span");
  box.className = "figure-scroll";
  image.replaceWith(box);
  box.append(image);
  const mark = () => {
    const width = Number(image.getAttribute("width")) || image.naturalWidth;
    image.classList.toggle("wide-figure", width > SHRINKS);
    image.style.setProperty("--natural", `${width}px`);
  };
  if (image.complete) mark();
  image.addEventListener("load", mark);
}

// On a phone the rows of a table of sentences are stacked, each cell below its heading (site.css).
function stack(table) {
  const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  const cells = [...table.querySelectorAll("tbody td")];
  const letters = cells.reduce((sum, cell) => sum + cell.textContent.length, 0);
  if (heads.length < 3 || letters < 15 * cells.length) return;
  table.classList.add("stacked");
  table.classList.toggle("verdicts", heads.at(-1) === "verdict");
  for (const cell of cells) cell.dataset.head = heads[cell.cellIndex];
}

// Buttons that open something are named by their words; the empty corner of a table is no heading.
function name() {
  for (const summary of document.querySelectorAll("summary")) {
    if (summary.textContent.trim()) summary.removeAttribute("aria-label");
    else if (summary.closest("li")) summary.ariaLabel = `more of ${summary.closest("li").querySelector("a")?.textContent.trim()}`;
  }
  for (const corner of document.querySelectorAll("th")) {
    if (!corner.textContent.trim()) corner.replaceWith(document.createElement("td"));
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".drawn:not(.has-parts) img").forEach(frame);
  document.querySelectorAll(".bd-article table").forEach(stack);
  name();
  watch();
});
// formulas are set after the page has loaded
window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(watch));
