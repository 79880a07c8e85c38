// What a reader looks for first: an estimator by its name, a chapter, then results and the reference.
"use strict";

var Scorer = {
  score: ([page, , , , score, , kind]) => {
    const first = page.startsWith("chapters/00"); // it names all methods, the others explain them
    if (page.startsWith("chapters/")) return score + (kind === "title" ? 60 : 50) - first;
    if (kind === "index") return Math.min(score, 40);
    return /^api\/[a-z]/.test(page) ? score - 30 : score;
  },
  objNameMatch: 80,
  objPartialMatch: 6,
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// A hit opens where its word stands: browsers go to the text that a link names.
new MutationObserver((changes) => {
  const word = new URLSearchParams(location.search).get("q")?.trim().split(/\s+/)[0];
  if (!word) return;
  for (const node of changes.flatMap((change) => [...change.addedNodes])) {
    for (const link of node.querySelectorAll?.("#search-results li > a:not([href*='#'])") ?? []) {
      link.href += `#:~:text=${encodeURIComponent(word)}`;
    }
  }
}).observe(document.documentElement, { childList: true, subtree: true });
