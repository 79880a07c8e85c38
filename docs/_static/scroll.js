// What is wider than the page scrolls inside its own box: say so, while there is more to see.
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

function sign(box) {
  const made = document.createElement("span");
  made.className = "more-sign";
  made.setAttribute("aria-hidden", "true");
  made.textContent = "more to the right: scroll \u2192";
  (box.closest(".math, div[class*=highlight-]") ?? box).before(made);
  return made;
}

// Mark a box whose content goes on to the right; at the end of it, or where all fits, take that away.
function tell(box) {
  const wider = box.clientWidth > 0 && box.scrollWidth > box.clientWidth + 2;
  const scrolls = wider && ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
  const more = scrolls && box.scrollLeft + box.clientWidth < box.scrollWidth - 2;
  if (scrolls && !box.scrollSign) {
    box.scrollSign = sign(box);
    const kind = KINDS.find(([selector]) => box.matches(selector))[1];
    if (!box.hasAttribute("aria-label")) {
      box.setAttribute("aria-label", `${kind}, scrolls sideways`);
      box.setAttribute("role", "region");
    }
  }
  if (!box.scrollSign) return;
  box.classList.toggle("has-more", more);
  box.scrollSign.hidden = !scrolls;
  box.scrollSign.classList.toggle("at-end", !more);
  if (scrolls) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

function watch() {
  const sizes = new ResizeObserver((entries) => {
    for (const entry of entries) tell(entry.target.closest(SELECTOR));
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

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".drawn:not(.has-parts) img").forEach(frame);
  watch();
});
// formulas are set after the page has loaded
window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(watch));
