// A chapter that runs where it is read: a button, one worker with Python, cells that can be edited,
// and outputs in the book's own look. Without http, or without the files, the chapter is only read.
"use strict";

class Chapter {
  constructor(facts, told) {
    this.told = told;
    this.root = new URL(document.documentElement.dataset.content_root ?? "./", location.href);
    this.cells = [...document.querySelectorAll("div.cell, .widget-note[data-code]")]
      .filter((node) => node.dataset.code || node.querySelector(".cell_input pre"))
      .map((node, number) => this.cell(node, number));
    const minutes = told.seconds > 90 ? `${Math.round(told.seconds / 60)} minutes` : `${told.seconds} s`;
    const costs = `${told.megabytes} MB once, then about ${minutes} on a laptop, 1 GB of memory; for learning, not for private data`;
    this.button = make("button", { type: "button", textContent: "Run this chapter here", onclick: () => this.runAll() });
    facts.after(make("div", { className: "run-offer" }, this.button, make("span", { textContent: costs })));
    for (const said of document.querySelectorAll(".widget-note em")) said.append(" They come here, too, once the chapter runs.");
    this.said = make("span", { role: "status" });
    this.stopper = make("button", { type: "button", textContent: "Stop", onclick: () => this.stop("stopped: the next run begins at the first cell") });
    this.again = make("button", { type: "button", textContent: "Run all", onclick: () => this.runAll() });
    this.restorer = make("button", { type: "button", textContent: "Restore", onclick: () => this.restore() });
    this.restorer.title = "code and outputs as they were printed";
    this.bar = make("div", { className: "run-bar", hidden: true }, this.said, this.stopper, this.again, this.restorer);
    document.body.append(this.bar);
    this.busy(false);
  }

  cell(node, number) {
    const pre = node.querySelector(".cell_input pre");
    const kept = pre?.innerHTML;
    const out = pre ? node.querySelector(":scope > .cell_output") : null;
    return { node, number, pre, kept, out, printed: [...(out ?? node).childNodes] };
  }

  // --- the worker: asked one thing at a time, ended by Stop ---------------------------------------

  ask(act, given = {}) {
    return new Promise((done, fail) => {
      const id = this.asked = (this.asked ?? 0) + 1;
      this.waiting.set(id, { done, fail });
      this.worker.postMessage({ id, act, ...given });
    });
  }

  start() {
    this.started ??= new Promise((done, fail) => {
      this.waiting = new Map();
      this.worker = new Worker(new URL("_static/run_worker.js", this.root));
      this.worker.onerror = ({ message }) => fail(Error(message || "Python did not arrive: is there a network?"));
      this.worker.onmessage = ({ data: { id, say, found, error } }) => {
        if (say) return this.say(say);
        const { done, fail } = this.waiting.get(id);
        this.waiting.delete(id);
        if (error) fail(Error(error));
        else done(found);
      };
      this.ask("start", { files: new URL("running/", this.root).href }).then(done, fail);
    });
    return this.started;
  }

  stop(why) {
    this.worker?.terminate();
    for (const { fail } of this.waiting?.values() ?? []) fail(Error(why));
    this.started = this.worker = undefined;
    for (const { node } of this.cells) delete node.dataset.ran;
    document.querySelectorAll(".run-controls *").forEach((one) => { one.disabled = true; }); // theirs is gone
  }

  say(text) {
    this.said.textContent = text;
  }

  busy(now) {
    this.running = now;
    this.stopper.hidden = !now;
    this.again.hidden = this.restorer.hidden = now;
    this.button.disabled = now;
  }

  // --- running --------------------------------------------------------------------------------------

  async runAll(from = 0, to = this.cells.length) {
    if (this.running) return;
    this.busy(true);
    this.bar.hidden = false;
    try { sessionStorage.setItem("fedclust runs", "yes"); } catch {}
    this.cells.forEach((cell) => this.edit(cell));
    try {
      const begin = this.worker ? from : 0; // Python that starts anew knows nothing of the cells above
      await this.start();
      for (const cell of this.cells.slice(begin, to)) {
        const slow = this.told.slow?.[cell.number];
        this.say(`cell ${cell.number + 1} of ${this.cells.length}${slow ? `, which takes about ${slow} s` : ""}`);
        cell.node.dataset.ran = "now";
        const found = await this.ask("run", { code: this.code(cell) });
        this.draw(cell, found);
        if (found.failed && !cell.node.classList.contains("tag_secure-keys")) {
          cell.node.scrollIntoView({ block: "center" });
          throw Error(`cell ${cell.number + 1} stopped: its message is below it`);
        }
      }
      this.say(to < this.cells.length ? "done, but cells below have not run again: press Run from here on"
        : "done. Change any cell, then press its Run or Run from here on");
    } catch (error) {
      this.say(error.message);
      if (!this.cells.some(({ node }) => node.dataset.ran)) this.stop();
    }
    this.busy(false);
  }

  code({ node, pre }) {
    return pre ? text(pre.cloneNode(true)) : node.dataset.code;
  }

  edit(cell) {
    const { pre, node, number } = cell;
    if (!pre || pre.isContentEditable) return;
    pre.contentEditable = "plaintext-only";
    if (!pre.isContentEditable) pre.contentEditable = "true";
    Object.assign(pre, { spellcheck: false, autocapitalize: "off", role: "textbox", ariaMultiLine: "true" });
    pre.ariaLabel = `code of cell ${number + 1}; Shift-Enter runs it, Escape leaves it`;
    pre.tabIndex = 0;
    Object.defineProperty(pre, "tabIndex", { set() {} }); // the theme would take short cells out of the order
    pre.oninput = () => { pre.className = "edited"; node.dataset.ran = "changed"; };
    pre.onkeydown = (event) => {
      event.stopPropagation(); // to the book "/" means its search
      if (event.key === "Enter" && event.shiftKey) this.runAll(number, number + 1);
      else if (event.key === "Enter" && !event.isComposing) document.execCommand("insertText", false, `\n${indent(pre)}`);
      else if (event.key === "Tab" && !event.shiftKey) document.execCommand("insertText", false, "    ");
      else if (event.key === "Escape") pre.blur();
      else return;
      event.preventDefault();
    };
    const run = make("button", { type: "button", textContent: "Run", title: "Shift-Enter", onclick: () => this.runAll(number, number + 1) });
    const below = make("button", { type: "button", textContent: "Run from here on", onclick: () => this.runAll(number) });
    const tools = make("div", { className: "run-tools" }, run, below);
    tools.onmousedown = (event) => event.preventDefault(); // a focus would move them from under the pointer
    pre.closest(".cell_input").append(tools);
  }

  restore() {
    for (const cell of this.cells) {
      const { node, pre, out } = cell;
      delete node.dataset.ran;
      if (pre) Object.assign(pre, { innerHTML: cell.kept, className: "" });
      if (out || !pre) (out ?? node).replaceChildren(...cell.printed);
      else cell.made?.remove();
      cell.made = undefined;
    }
    this.say("code and outputs as they were printed");
    watch();
  }

  // --- what a cell shows ------------------------------------------------------------------------------

  draw(cell, { outputs, failed, seconds }) {
    const { node, pre } = cell;
    node.dataset.ran = failed ? "failed" : "ok";
    Object.assign(node, { outputs, seconds }); // as they came, for tests
    let place = pre ? cell.out ?? cell.made : node;
    if (!place) {
      if (!outputs.length) return;
      node.append(place = cell.made = make("div", { className: "cell_output docutils container" }));
    }
    const mark = make("p", { className: "ran-here", textContent: `ran here, ${seconds.toFixed(1)} s` });
    const controls = outputs.find(({ kind }) => kind === "controls")?.controls;
    const pictures = make("div", { className: "run-pictures" }, ...this.shown(outputs));
    if (controls) place.replaceChildren(mark, this.panel(controls, pictures), pictures);
    else place.replaceChildren(mark, ...pictures.children);
    place.querySelectorAll(".drawn:not(.has-parts) img").forEach(frame);
    watch();
    const mathematics = window.MathJax?.typesetPromise;
    if (mathematics && outputs.some(({ kind }) => kind === "html")) mathematics([place]);
  }

  shown(outputs) {
    return outputs.filter(({ kind }) => kind !== "controls").map(({ kind, text }) => {
      const box = make("div", { className: `output ${kind}` });
      if (kind === "figure" || kind === "html") {
        box.className = "output text_html";
        box.innerHTML = text;
        for (const table of box.querySelectorAll("table:not(.dataframe)")) {
          table.className = "table";
          const scrolls = make("div", { className: "pst-scrollable-table-container" });
          table.replaceWith(scrolls);
          scrolls.append(table);
          stack(table);
        }
      } else {
        const lines = make("pre", { textContent: text });
        box.append(make("div", { className: "highlight-myst-ansi notranslate" }, make("div", { className: "highlight" }, lines)));
      }
      return box;
    });
  }

  // --- sliders: the worker calls what the widget calls ---------------------------------------------

  panel(controls, pictures) {
    let wanted, moving = false;
    const move = async (control, at) => {
      wanted = [control, at];
      if (moving) return; // the last position is drawn when the worker is free
      const alone = !this.running; // else behind the cell that runs
      moving = true;
      if (alone) this.busy(true);
      try {
        while (wanted) {
          const [control, at] = wanted;
          wanted = undefined;
          const { outputs } = await this.ask("move", { control: control.id, at });
          pictures.replaceChildren(...this.shown(outputs));
          pictures.querySelectorAll("img").forEach(frame);
        }
      } catch (error) {
        this.say(error.message);
      }
      moving = false;
      if (alone) this.busy(false);
    };
    return make("div", { className: "run-controls" }, ...controls.map((control) => {
      if (control.form === "button") {
        return make("button", { type: "button", textContent: control.name, title: control.tip ?? "", onclick: () => move(control, 0) });
      }
      const name = make("span", { textContent: control.name });
      if (control.form === "list") {
        const pick = make("select", { ariaLabel: control.name }, ...control.words.map((word) => make("option", { textContent: word })));
        pick.selectedIndex = control.at;
        pick.onchange = () => move(control, pick.selectedIndex);
        return make("label", {}, name, pick);
      }
      const words = make("output", { textContent: control.words[control.at] });
      const range = make("input", { type: "range", ariaLabel: control.name, min: 0, max: control.words.length - 1, value: control.at });
      const tell = () => { range.ariaValueText = words.textContent = control.words[range.value]; };
      range.oninput = tell;
      range.onchange = () => move(control, Number(range.value));
      tell();
      return make("label", {}, name, range, words);
    }));
  }
}

function text(copy) {
  for (const end of copy.querySelectorAll("br")) end.replaceWith("\n"); // what a browser puts for new lines
  return copy.textContent;
}

function indent(pre) { // of the line with the caret; one step more after a colon
  const before = getSelection().getRangeAt(0).cloneRange();
  before.setStart(pre, 0);
  const line = text(before.cloneContents()).split("\n").pop();
  return line.match(/^ */)[0] + (line.trimEnd().endsWith(":") ? "    " : "");
}

document.addEventListener("DOMContentLoaded", () => {
  const given = document.getElementById("run-here");
  if (!given || !location.protocol.startsWith("http") || !window.Worker) return;
  const chapter = new Chapter(document.querySelector(".chapter-facts"), JSON.parse(given.textContent));
  let runs = false;
  try { runs = sessionStorage.getItem("fedclust runs") === "yes"; } catch {}
  const second = document.querySelectorAll(".bd-article h2")[1];
  if (!runs || !second) return;
  const early = new IntersectionObserver((entries) => { // who has run a chapter in this visit will run this one
    if (!entries.some((entry) => entry.isIntersecting)) return;
    early.disconnect();
    chapter.start().catch(() => chapter.stop());
  });
  early.observe(second);
});
