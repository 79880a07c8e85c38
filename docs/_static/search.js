// What a reader looks for first: chapters and results before the reference, unless it is a full name.
"use strict";

var Scorer = {
  score: ([page, , , , score, , kind]) => {
    if (page.startsWith("chapters/")) return score + 20;
    return page.startsWith("api/") && kind !== "object" ? score - 10 : score;
  },
  objNameMatch: 40,
  objPartialMatch: 6,
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
